"""The bipartite key graph [MW16-LOCALITY, 3.3].

Vertices are the keys of two stages, weighted by their records. Edges are key pairs, weighted by how
often they occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from solvers.key_routing.pair_statistics import PairStatistics
from solvers.model.problem import FloatArray, IntArray
from solvers.model.traffic_graph import TrafficGraph

LEFT, RIGHT = 0, 1


@dataclass(frozen=True, eq=False, slots=True)
class KeyGraph:
    """Vertices are the left keys, then the right keys.

    Attributes:
        keys: [vertices] The keys.
        n_left: Number of left keys.
        weight: [vertices] Records of each key.
        state: [vertices] State that moves with each key.
        edge_left: [edges] Vertex of the left key.
        edge_right: [edges] Vertex of the right key.
        edge_weight: [edges] Records of the pair.
    """

    keys: tuple[bytes, ...]
    n_left: int
    weight: FloatArray
    state: FloatArray
    edge_left: IntArray
    edge_right: IntArray
    edge_weight: FloatArray

    @property
    def n_vertices(self) -> int:
        return len(self.keys)

    def stage(self, side: int) -> slice:
        """Return the vertices of one side, LEFT or RIGHT."""
        return slice(0, self.n_left) if side == LEFT else slice(self.n_left, self.n_vertices)

    @classmethod
    def of(
        cls,
        statistics: PairStatistics,
        state: Mapping[tuple[int, bytes], float] | None = None,
        *,
        proven: bool = False,
    ) -> KeyGraph:
        """Return the graph of summaries. A key weighs its own count, not that of its pairs.

        Args:
            statistics: Summaries of pairs and keys.
            state: State of each (side, key); 1 for every key if None.
            proven: Whether weights are the lower bounds of the counts.
        """
        pairs, left, right = statistics.pairs, statistics.left, statistics.right
        weights = pairs.at_least if proven else pairs.counts
        return cls.from_counts(
            [(a, b, weight) for (a, b), weight in weights.items()],
            left.at_least if proven else left.counts,
            right.at_least if proven else right.counts,
            state,
        )

    @classmethod
    def from_counts(
        cls,
        pairs: Iterable[tuple[bytes, bytes, float]],
        left: Mapping[bytes, float] | None = None,
        right: Mapping[bytes, float] | None = None,
        state: Mapping[tuple[int, bytes], float] | None = None,
    ) -> KeyGraph:
        """Return the graph of counted pairs.

        Without counts of their own, keys weigh what their pairs weigh [MW16-LOCALITY].
        """
        rows = list(pairs)
        sides = (_weights(rows, 0, left), _weights(rows, 1, right))
        index = [{key: i for i, key in enumerate(side)} for side in sides]
        n_left = len(sides[LEFT])
        keys = (*sides[LEFT], *sides[RIGHT])
        held = state or {}
        states = [held.get((s, key), 1.0) for s in (LEFT, RIGHT) for key in sides[s]]
        return cls(
            keys,
            n_left,
            np.array([*sides[LEFT].values(), *sides[RIGHT].values()], dtype=np.float64),
            np.array(states, dtype=np.float64),
            np.array([index[LEFT][a] for a, _, _ in rows], dtype=np.int64),
            np.array([n_left + index[RIGHT][b] for _, b, _ in rows], dtype=np.int64),
            np.array([w for _, _, w in rows], dtype=np.float64),
        )

    def as_traffic(self) -> TrafficGraph:
        """Return the graph for a graph partitioning."""
        return TrafficGraph.from_edges(
            self.n_vertices, self.edge_left, self.edge_right, self.edge_weight
        )

    def local_weight(self, server: IntArray) -> float:
        """Return the records between keys on one server."""
        together = server[self.edge_left] == server[self.edge_right]
        return float(self.edge_weight[together].sum())


def _weights(
    rows: list[tuple[bytes, bytes, float]], side: int, counted: Mapping[bytes, float] | None
) -> dict[bytes, float]:
    of_pairs: dict[bytes, float] = {}
    for row in rows:
        key = row[0] if side == LEFT else row[1]
        of_pairs[key] = of_pairs.get(key, 0.0) + row[2]
    if counted is None:
        return of_pairs
    # A key without a count of its own weighs at least as much as its counted pairs.
    return {**counted, **{k: w for k, w in of_pairs.items() if k not in counted}}
