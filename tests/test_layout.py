from xml.etree import ElementTree

import numpy as np
import pytest

from chefs import ChefsProcess, Dag
from chefs._layout import positions, spacing, svg

PRIORS = [
    (ChefsProcess(1.0, 2.0, 1.0), 2),
    (ChefsProcess(1.0, 2.0, 1.0), [0.0, 0.0, 0.0]),
    (ChefsProcess(20.0, 2.0, 1.0), 5),
    (ChefsProcess(1.0, 20.0, 5.0), [1.0, 0.0]),
    (ChefsProcess(5.0, 0.3, 1.0), [0.5] * 60),
]
SVG = "{http://www.w3.org/2000/svg}"


def draws(prior, observed, n=6):
    many = prior.sample(np.random.default_rng(1), observed, size=300)
    return [dag for dag in many if 2 <= dag.n_nodes <= 100][:n]


@pytest.mark.parametrize(("prior", "observed"), PRIORS)
def test_nodes_are_at_their_order_and_apart(prior, observed):
    dags = draws(prior, observed)
    assert dags
    for dag in dags:
        at = positions(dag)
        assert np.array_equal(at[:, 1], dag.order)
        distance = np.linalg.norm(at[:, None] - at, axis=-1)[~np.eye(dag.n_nodes, dtype=bool)]
        assert distance.min() >= spacing(dag.n_nodes) * (1 - 1e-6)
        assert np.array_equal(at, positions(dag))


def test_edges_are_much_shorter_than_with_nodes_in_a_row():
    chosen, in_a_row = 0.0, 0.0
    for dag in draws(ChefsProcess(20.0, 2.0, 1.0), 5):
        parent, child = np.nonzero(dag.edges)
        x, row = positions(dag)[:, 0], np.arange(dag.n_nodes) * spacing(dag.n_nodes)
        chosen += np.abs(x[parent] - x[child]).sum()
        in_a_row += np.abs(row[parent] - row[child]).sum()
    assert chosen < in_a_row / 3


def test_a_child_lies_between_its_parents():
    dag = Dag([[0, 0, 0], [1, 0, 0], [1, 0, 0]], [0.0, 0.8, 0.8], n_observed=1)
    x = positions(dag)[:, 0]
    assert min(x[1], x[2]) <= x[0] <= max(x[1], x[2])


@pytest.mark.parametrize(("prior", "observed"), PRIORS)
def test_svg_shows_every_node_and_edge(prior, observed):
    dag = draws(prior, observed, n=1)[0]
    root = ElementTree.fromstring(svg(dag))
    assert len(root.findall(f".//{SVG}circle")) == dag.n_nodes
    assert [text.text for text in root.iter(f"{SVG}text")] == [str(i) for i in range(dag.n_nodes)]
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert all(f"{k} → {i}" in titles for k, i in np.argwhere(dag.edges))
    assert f"observed node 0, order {dag.order[0]:.4g}" in titles
    fills = [circle.get("fill") for circle in root.iter(f"{SVG}circle")]
    assert len(set(fills[: dag.n_observed])) == 1
    assert fills[0] not in fills[dag.n_observed :]


def test_svg_stays_inside_its_frame():
    dag = draws(*PRIORS[3], n=1)[0]
    root = ElementTree.fromstring(svg(dag))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for group in root.iter(f"{SVG}g"):
        if group.get("transform"):
            x, y = map(float, group.get("transform", "")[len("translate(") : -1].split(","))
            assert 0 < x < width
            assert 0 < y < height


def test_notebooks_get_the_svg():
    dag = Dag([[0]], [0.5], n_observed=1)
    assert dag._repr_svg_() == svg(dag)
