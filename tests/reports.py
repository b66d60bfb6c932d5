"""Models whose posterior is known draw by draw, for reports about them; and what a page holds, as a reader sees it."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from chefs import Draw, SigmoidNetwork, Trace
from chefs.draws import ChainDraws

ROOT = Path(__file__).parent.parent


class Seen(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def draw_of(rng, n, hidden=True, second=True, weight=1.5):
    """A draw over n columns: one hidden unit above all columns, and one above that, with an edge to column 0."""
    order = [0.0] * n + ([0.4] if hidden else []) + ([0.8] if hidden and second else [])
    edges = [(n, i, weight + 0.1 * i) for i in range(n)] if hidden else []
    edges += [(n + 1, n, -2.0), (n + 1, 0, 0.5)] if hidden and second else []
    parent, child = (np.array([edge[end] for edge in edges], dtype=np.int32) for end in (0, 1))
    scalars = {"alpha": 1 + rng.random(), "gamma": 2 + rng.random(), "phi": 1 + rng.random(), "log_prob": -3.0}
    scalars |= {"log_likelihood": rng.normal(-100, 5)}
    node = {"bias": rng.normal(size=len(order)), "precision": np.full(len(order), 4.0)}
    return Draw(np.array(order), parent, child, scalars, node, {"weight": np.array([edge[2] for edge in edges])})


STATS = {"moves": {"birth": {"made": 40, "accepted": 0, "seconds": 0.5}}, "seconds": 3.0, "warmup": 7}
ASKED = {
    "version": "0.1.0",
    "seed": 4,
    "draws": 40,
    "warmup": 7,
    "thin": 1,
    "minutes": None,
    "prior": {"name": "ChefsProcess", "alpha": 1.0, "gamma": 1.0, "phi": 1.0},
    "hyperpriors": {name: [0.5, 0.5] for name in ("alpha", "gamma", "phi")},
    "orders": [0.0, 0.0],
    "start": "empty",
    "moves": ["birth"],
    "required": [],
    "forbidden": [],
    "max_hidden": None,
}


def model_with(draws, names, stats=None):
    """A model whose posterior is these draws, a list for each chain."""
    n = len(names)
    model = SigmoidNetwork()
    about = {"asked": {**ASKED, "orders": [0.0] * n}}
    chains = [ChainDraws.from_draws(n, chain) for chain in draws]
    model.trace_ = Trace(chains, stats or [STATS] * len(chains), names, about)
    model.mean_, model.scale_, model._training = np.arange(n, dtype=float), np.full(n, 2.0), None
    model.n_features_in_ = n
    return model


def usual(names=("x", "y"), chains=2, draws=40, rng=None, **look):
    """Three draws of four have the second unit."""
    rng = rng or np.random.default_rng(0)
    draws = [[draw_of(rng, len(names), second=d % 4 != 0, **look) for d in range(draws)] for _ in range(chains)]
    return model_with(draws, list(names))


def table(names, rows=60, gaps=0.0, seed=1):
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(rows, 1)) + 0.3 * rng.normal(size=(rows, len(names)))
    data[rng.random(data.shape) < gaps] = np.nan
    return data


def numbers(**changes):
    found = json.loads((ROOT / "docs" / "results" / "architectures_default.json").read_text())
    return found | changes


def with_picked(**changes):
    """The same with networks to pick from: the three examples, as first draw, in the second chain, and as last draw."""
    found = numbers(**changes)
    draws = (0, found["n_draws"][0] + 4, sum(found["n_draws"]) - 1)
    dags = [example["dag"] for example in found["examples"]]
    return found | {"picked": [{"draw": draw, "dag": dag} for draw, dag in zip(draws, dags, strict=True)]}
