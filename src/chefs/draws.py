"""Draws: what a sampler keeps of its states, laid end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from chefs import storage
from chefs.dag import FloatArray, IntArray
from chefs.dags import Dags, ragged_indices, starts


class Draw(NamedTuple):
    """What one posterior draw holds: a graph in flat arrays, and numbers for the whole, each node and each edge.

    A node or edge may have a row of numbers too, as long in all draws.
    """

    order: FloatArray
    parent: IntArray
    child: IntArray
    scalars: Mapping[str, float] = {}
    node: Mapping[str, FloatArray] = {}
    edge: Mapping[str, FloatArray] = {}


@dataclass(frozen=True, slots=True)
class ChainDraws:
    """The draws of one chain, end to end."""

    dags: Dags
    scalars: dict[str, FloatArray] = field(default_factory=dict)
    node: dict[str, FloatArray] = field(default_factory=dict)
    edge: dict[str, FloatArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.dags)

    @classmethod
    def from_draws(cls, n_observed: int, draws: Sequence[Draw]) -> ChainDraws:
        """Lay draws end to end."""
        names = draws[0] if draws else Draw(np.empty(0), np.empty(0, np.int32), np.empty(0, np.int32))
        dags = Dags(
            n_observed,
            starts(np.array([draw.order.size for draw in draws], dtype=np.int64)),
            starts(np.array([draw.parent.size for draw in draws], dtype=np.int64)),
            _joined([draw.order for draw in draws], np.float64),
            _joined([draw.parent for draw in draws], np.int32),
            _joined([draw.child for draw in draws], np.int32),
        )
        return cls(
            dags,
            {name: np.array([draw.scalars[name] for draw in draws], dtype=np.float64) for name in names.scalars},
            {name: _joined([draw.node[name] for draw in draws], np.float64) for name in names.node},
            {name: _joined([draw.edge[name] for draw in draws], np.float64) for name in names.edge},
        )

    @classmethod
    def joined(cls, pieces: Sequence[ChainDraws]) -> ChainDraws:
        """Several pieces of one chain as one."""
        first = pieces[0].dags
        dags = Dags(
            first.n_observed,
            starts(np.concatenate([piece.dags.n_nodes for piece in pieces])),
            starts(np.concatenate([piece.dags.n_edges for piece in pieces])),
            np.concatenate([piece.dags.order for piece in pieces]),
            np.concatenate([piece.dags.parent for piece in pieces]),
            np.concatenate([piece.dags.child for piece in pieces]),
        )
        parts = [
            {
                name: np.concatenate([getattr(piece, kind)[name] for piece in pieces])
                for name in getattr(pieces[0], kind)
            }
            for kind in ("scalars", "node", "edge")
        ]
        return cls(dags, *parts)

    def take(self, indices: IntArray) -> ChainDraws:
        """The draws with these numbers."""
        nodes = ragged_indices(self.dags.node_start, indices)
        edges = ragged_indices(self.dags.edge_start, indices)
        return ChainDraws(
            self.dags.take(indices),
            {name: values[indices] for name, values in self.scalars.items()},
            {name: values[nodes] for name, values in self.node.items()},
            {name: values[edges] for name, values in self.edge.items()},
        )

    def to_bytes(self) -> bytes:
        """The body of a segment of a run."""
        dags = self.dags
        arrays = {
            "n_nodes": dags.n_nodes.astype(np.int32),
            "n_edges": dags.n_edges.astype(np.int64),
            "order": dags.order,
            "parent": dags.parent.astype(np.int32),
            "child": dags.child.astype(np.int32),
        }
        for kind in ("scalars", "node", "edge"):
            arrays |= {f"{kind}/{name}": values for name, values in getattr(self, kind).items()}
        return storage.pack_arrays(arrays)

    @classmethod
    def from_bytes(cls, n_observed: int, payload: bytes) -> ChainDraws:
        """What `to_bytes` wrote."""
        arrays = storage.unpack_arrays(payload)
        flat = (arrays.pop(name) for name in ("order", "parent", "child"))
        dags = Dags(n_observed, starts(arrays.pop("n_nodes")), starts(arrays.pop("n_edges")), *flat)
        parts: dict[str, dict[str, FloatArray]] = {"scalars": {}, "node": {}, "edge": {}}
        for key, values in arrays.items():
            kind, _, name = key.partition("/")
            parts[kind][name] = values
        return cls(dags, **parts)


def _joined(pieces: Sequence[np.ndarray], dtype: Any) -> np.ndarray:
    return np.concatenate(pieces).astype(dtype, copy=False) if pieces else np.empty(0, dtype)
