"""Trace: what a sampler has seen. Graphs of any size and their parameters, in memory and on disk."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from chefs import __version__
from chefs.dag import Dag, FloatArray, IntArray, checked_names, counted, shown
from chefs.dags import Dags, starts
from chefs.draws import ChainDraws
from chefs.storage import RunError, Store

if TYPE_CHECKING:
    import arviz
    import xarray


def _numbers(kind: str, key: Any, size: int) -> IntArray:
    """What an index (a number, a slice, an array of numbers or booleans) picks out of `size` things."""
    if key is None or key is Ellipsis or isinstance(key, bool | np.bool_ | str):
        raise IndexError(f"the index of a {kind} must be a number, a slice or an array; found {shown(key)}")
    try:
        return np.atleast_1d(np.arange(size)[key])
    except IndexError as error:
        if isinstance(key, int | np.integer):
            raise IndexError(f"{kind} {key} does not exist: the trace has {size} of them") from None
        raise IndexError(f"the index of a {kind} must be a number, a slice or an array: {error}") from None


class Trace:
    """Draws of one or more chains.

    `trace[chain, draw]` is a `Dag`; with a slice or an array in either place it is a shorter `Trace`. Iteration runs
    over the graphs of all chains.

    Args:
        chains: The draws of each chain.
        stats: For each chain what is worth knowing about how it ran: acceptance of each move, seconds, swap rates.
        names: Names of the observed nodes.
        about: Facts about the whole, such as the scale of the data, of the types that JSON knows.
    """

    def __init__(
        self,
        chains: Sequence[ChainDraws],
        stats: Sequence[Mapping[str, Any]] | None = None,
        names: Sequence[str] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        if not chains:
            raise ValueError("a trace needs at least one chain")
        self.chains = list(chains)
        self.stats = [dict(stat) for stat in stats] if stats else [{} for _ in self.chains]
        self.n_observed = self.chains[0].dags.n_observed
        self.names = checked_names(range(self.n_observed) if names is None else names, self.n_observed)
        self.about = dict(about or {})

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.chains)

    @property
    def n_draws(self) -> int:
        """Number of draws of the shortest chain."""
        return min(len(chain) for chain in self.chains)

    def __len__(self) -> int:
        return sum(len(chain) for chain in self.chains)

    def __iter__(self) -> Iterator[Dag]:
        for chain in self.chains:
            yield from chain.dags

    @overload
    def __getitem__(self, key: tuple[int, int]) -> Dag: ...
    @overload
    def __getitem__(self, key: int | slice | IntArray | tuple[int | slice | IntArray, slice | IntArray]) -> Trace: ...
    @overload
    def __getitem__(self, key: tuple[slice | IntArray, int]) -> Trace: ...
    def __getitem__(self, key):
        if isinstance(key, tuple) and len(key) != 2:
            raise IndexError(f"a trace has two indices, trace[chain, draw]; found {len(key)}")
        which, draws = key if isinstance(key, tuple) else (key, slice(None))
        picked = _numbers("chain", which, self.n_chains)
        wanted = [_numbers("draw", draws, len(self.chains[c])) for c in picked]
        if isinstance(which, int | np.integer) and isinstance(draws, int | np.integer):
            return self.chains[picked[0]].dags[int(wanted[0][0])]
        chains = [self.chains[c].take(numbers) for c, numbers in zip(picked, wanted, strict=True)]
        return Trace(chains, [self.stats[c] for c in picked], self.names, self.about)

    def __repr__(self) -> str:
        hidden = self.n_hidden
        mean = f", {hidden.mean():.3g} hidden nodes in the mean" if hidden.size else ""
        size = f"{counted(self.n_chains, 'chain')}, {counted(len(self), 'draw')}"
        return f"Trace({size}, {counted(self.n_observed, 'observed node')}{mean})"

    @property
    def n_hidden(self) -> IntArray:
        """Number of hidden nodes of every draw, chain after chain."""
        return np.concatenate([chain.dags.n_hidden for chain in self.chains])

    @property
    def n_edges(self) -> IntArray:
        """Number of edges of every draw, chain after chain."""
        return np.concatenate([chain.dags.n_edges for chain in self.chains])

    def scalar(self, name: str) -> FloatArray:
        """One number of every draw, such as "gamma" or "log_prob", chain after chain."""
        begun = [chain for chain in self.chains if len(chain)] or self.chains  # without draws, nothing has a name
        if name not in begun[0].scalars:
            known = ", ".join(begun[0].scalars) or "none"
            raise KeyError(f"no scalar named {name!r}; this trace has: {known}")
        return np.concatenate([chain.scalars[name] for chain in begun])

    def n_hidden_pmf(self) -> FloatArray:
        """Share of the draws with 0, 1, 2, … hidden nodes."""
        return np.bincount(self.n_hidden) / self._n_at_least_one()

    def edge_probabilities(self) -> FloatArray:
        """P(k is a parent of i) among the observed nodes, as a matrix with entry [k, i]."""
        n = self.n_observed
        total = np.zeros((n, n))
        for chain in self.chains:
            inside = (chain.dags.parent < n) & (chain.dags.child < n)
            np.add.at(total, (chain.dags.parent[inside], chain.dags.child[inside]), 1.0)
        return total / self._n_at_least_one()

    def ancestor_probabilities(self) -> FloatArray:
        """P(there is a directed path from k to i, through hidden nodes or not) among the observed, entry [k, i]."""
        from chefs._core.summaries import count_ancestors

        total = np.zeros((self.n_observed, self.n_observed))
        for chain in self.chains:
            dags = chain.dags
            count_ancestors(dags.node_start, dags.edge_start, dags.order, dags.parent, dags.child, total)
        return total / self._n_at_least_one()

    def structures(self) -> list[tuple[Dag, float]]:
        """The structures seen (edges up to renaming hidden nodes), most frequent first, with their shares.

        Of each structure the draw with the highest density is shown; it also decides between equally frequent ones.
        """
        dags = list(self)
        return [(dags[draw], share) for draw, share in self._structures(dags)]

    def _structures(self, dags: Sequence[Dag]) -> list[tuple[int, float]]:
        """`structures`, with the number of a draw in place of its graph."""
        density = self._densities()
        groups: dict[int, list[list[int]]] = {}
        for number, dag in enumerate(dags):
            rivals = groups.setdefault(dag.structure_key(), [])
            for members in rivals:
                if dag.same_structure(dags[members[0]]):
                    members.append(number)
                    break
            else:
                rivals.append([number])
        best = [(len(m), max(m, key=lambda d: density[d])) for rivals in groups.values() for m in rivals]
        best.sort(key=lambda pair: (-pair[0], -density[pair[1]]))
        return [(draw, count / len(dags)) for count, draw in best]

    def _n_at_least_one(self) -> int:
        if not len(self):
            raise ValueError("the trace has no draws yet")
        return len(self)

    def _densities(self) -> FloatArray:
        total = np.zeros(len(self))
        for name in ("log_prob", "log_likelihood"):
            if any(name in chain.scalars for chain in self.chains):  # a chain without draws has none
                total += self.scalar(name)
        return total

    def most_probable(self) -> Dag:
        """The most frequent structure."""
        return self[self.most_probable_draw()]

    def most_probable_draw(self) -> tuple[int, int]:
        """Chain and number of the draw that `most_probable` shows: that of the highest density."""
        self._n_at_least_one()
        number = self._structures(list(self))[0][0]
        ends = np.cumsum([len(chain) for chain in self.chains])
        c = int(np.searchsorted(ends, number, side="right"))
        return c, number - int(ends[c] - len(self.chains[c]))

    def consensus(self, threshold: float = 0.5) -> Dag:
        """The median-probability graph: the edges that more than half of the draws have.

        Hidden nodes have no names, so those of each draw are matched to those of the most probable structure by how
        many neighbours they share (an optimal assignment). Where majorities form a cycle, its weakest edge is left out.
        """
        from chefs._consensus import consensus

        if not 0 <= threshold < 1:
            raise ValueError(f"threshold must be at least 0 and below 1; found {threshold!r}")
        return consensus(list(self), self.most_probable(), threshold)

    def to_arviz(self) -> arviz.InferenceData:
        """Scalars of every draw (nodes, edges, hyperparameters, densities) for ArviZ: R-hat, effective sizes, plots."""
        try:
            with warnings.catch_warnings():
                # ArviZ 0.x announces its own successor whenever it is imported.
                warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
                import arviz
        except ImportError:
            raise ImportError("to_arviz needs ArviZ: pip install 'chefs[export]'") from None
        n = self.n_draws
        posterior: dict[str, np.ndarray] = {
            "n_hidden": np.array([chain.dags.n_hidden[:n] for chain in self.chains]),
            "n_edges": np.array([chain.dags.n_edges[:n] for chain in self.chains]),
        }
        for name in self.chains[0].scalars:
            posterior[name] = np.array([chain.scalars[name][:n] for chain in self.chains])
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict({"posterior": posterior})
        with warnings.catch_warnings():  # it is the log-likelihood of all points together that is kept here
            warnings.filterwarnings("ignore", message="log_likelihood variable found")
            return arviz.from_dict(posterior=posterior)

    def to_xarray(self) -> xarray.Dataset:
        """All draws as a dataset with CF contiguous ragged arrays, ready for `to_netcdf` and `to_zarr`.

        Nodes and edges of all draws lie end to end along `node` and `edge`; `n_nodes` and `n_edges` say how many belong
        to each draw. Of what is a row of numbers, the other dimension is `point`.
        """
        try:
            import xarray
        except ImportError:
            raise ImportError("to_xarray needs xarray: pip install 'chefs[export]'") from None
        whole = ChainDraws.joined(self.chains)
        lengths = [len(chain) for chain in self.chains]
        variables: dict[str, Any] = {
            "chain": ("draw", np.repeat(np.arange(self.n_chains), lengths)),
            "n_nodes": ("draw", whole.dags.n_nodes, {"sample_dimension": "node"}),
            "n_edges": ("draw", whole.dags.n_edges, {"sample_dimension": "edge"}),
            "order": ("node", whole.dags.order),
            "parent": ("edge", whole.dags.parent),
            "child": ("edge", whole.dags.child),
        }
        named = [(name, ("draw",), values) for name, values in whole.scalars.items()]
        for kind, numbers in (("node", whole.node), ("edge", whole.edge)):
            named += [(f"{kind}_{name}", (kind, "point")[: v.ndim], v) for name, v in numbers.items()]
        for name, dimensions, values in named:
            if name in variables:
                raise ValueError(f"a dataset cannot hold two variables named {name!r}: rename the parameter")
            variables[name] = (dimensions, values)
        attributes = {
            "Conventions": "CF-1.11",
            "n_observed": self.n_observed,
            "names": json.dumps(self.names),
            "stats": json.dumps(self.stats),
            "about": json.dumps(self.about),
            "source": f"chefs {__version__}",
        }
        return xarray.Dataset(variables, attrs=attributes)

    @classmethod
    def from_xarray(cls, dataset: xarray.Dataset) -> Trace:
        """From what `to_xarray` made, after a journey through netCDF or zarr if need be."""
        values = {str(name): variable.values for name, variable in dataset.variables.items()}
        try:
            lengths = starts(values.pop("n_nodes")), starts(values.pop("n_edges"))
            flat = [values.pop(name) for name in ("order", "parent", "child")]
            chain = values.pop("chain")
            names, stats, about = (json.loads(dataset.attrs[name]) for name in ("names", "stats", "about"))
            dags = Dags(int(dataset.attrs["n_observed"]), *lengths, *flat)
        except KeyError as error:
            raise ValueError(f"this dataset is not a trace: it has no {error}") from None
        parts: dict[Any, dict[str, FloatArray]] = {"draw": {}, "node": {}, "edge": {}}
        for name, value in values.items():
            kind = next(iter(dataset[name].dims), None)
            if kind in parts:
                parts[kind][name if kind == "draw" else name.partition("_")[2]] = value
        whole = ChainDraws(dags, *parts.values())
        return cls([whole.take(np.flatnonzero(chain == c)) for c in range(len(stats))], stats, names, about)

    def save(self, path: str | Path) -> None:
        """Write to a new folder that `Trace.load` reads."""
        store = Store.new(Path(path))
        with store.alone():
            for c, chain in enumerate(self.chains):
                write_segment(store, c, 0, 0, chain)
                write_stats(store, c, self.stats[c])
            n_draws = [len(chain) for chain in self.chains]
            header = {"n_observed": self.n_observed, "names": self.names, "about": self.about, "n_draws": n_draws}
            write_header(store, header, self.n_chains)

    @classmethod
    def load(cls, path: str | Path, *, partial: bool = False) -> Trace:
        """The draws in a folder written by `save` or by a run, finished or not.

        Args:
            path: The folder.
            partial: Read each chain up to its first damaged file instead of stopping with an error.
        """
        store, header, _ = Store.open(Path(path))
        chains = [_read_chain(store, c, header, partial=partial) for c in range(header["chains"])]
        stats = [_read_stats(store, c, partial=partial) for c in range(header["chains"])]
        return cls(chains, stats, header["names"], header.get("about"))


def write_header(store: Store, header: Mapping[str, Any], chains: int, body: bytes = b"") -> None:
    """The file that makes a folder a run: how many chains, over which nodes, and what a sampler needs to go on."""
    store.write("run", {"chefs": __version__, "chains": chains, **header}, body)


def write_segment(store: Store, chain: int, number: int, first: int, draws: ChainDraws) -> None:
    """Segment `number` of a chain, which begins with draw number `first`."""
    name, facts = _segment(chain, number), {"first": first, "n_observed": draws.dags.n_observed}
    store.write(name, facts, draws.to_bytes())


def read_segments(store: Store, chain: int) -> Iterator[ChainDraws]:
    """The segments of a chain, in turn."""
    expected = 0
    for number in range(n_segments(store, chain)):
        name = _segment(chain, number)
        facts, body = store.read(name)
        if facts["first"] != expected:
            raise RunError(
                f"{store.folder / name} begins with draw {facts['first']} where draw {expected} should follow"
            )
        piece = ChainDraws.from_bytes(facts["n_observed"], body)
        expected += len(piece)
        yield piece


def n_segments(store: Store, chain: int) -> int:
    """How many segments of a chain are there."""
    return sum(1 for _ in (store.folder / f"chain-{chain}").glob("draws-*"))


def _segment(chain: int, number: int) -> str:
    return f"chain-{chain}/draws-{number:06d}"


def _read_chain(store: Store, chain: int, header: Mapping[str, Any], *, partial: bool) -> ChainDraws:
    """All draws of a chain, end to end."""
    pieces = [ChainDraws.from_draws(header["n_observed"], [])]
    try:
        # How many draws there must be is read first: a run that goes on meanwhile can only add to them.
        saved = 0 if partial else _n_saved(store, chain, header)
        for piece in read_segments(store, chain):
            pieces.append(piece)
        found = sum(len(piece) for piece in pieces)
        if found < saved:
            raise RunError(f"{store.folder / f'chain-{chain}'} has {found} of the {saved} draws that were written")
    except RunError as error:
        if not partial:
            raise RunError(f"{error}; Trace.load(..., partial=True) reads what comes before the damage") from None
    return ChainDraws.joined(pieces[1:] or pieces)


def _n_saved(store: Store, chain: int, header: Mapping[str, Any]) -> int:
    """How many draws of a chain are known to have been written."""
    return header["n_draws"][chain] if "n_draws" in header else store.read(f"chain-{chain}/state")[0]["n_draws"]


def write_stats(store: Store, chain: int, stats: Mapping[str, Any]) -> None:
    """How a chain ran, written when it has ended."""
    store.write(f"chain-{chain}/stats", {"stats": stats})


def _read_stats(store: Store, chain: int, *, partial: bool) -> dict[str, Any]:
    name = f"chain-{chain}/stats"
    if not store.has(name):
        return {}  # the chain has not ended
    try:
        return store.read(name)[0]["stats"]
    except RunError:
        if partial:
            return {}
        raise
