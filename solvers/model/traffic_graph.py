"""Traffic between key groups as compressed rows.

The work of a move grows with the number of its partners, not with the size of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model.problem import FloatArray, IntArray, Problem


def sum_by(index: IntArray, weight: FloatArray, size: int) -> FloatArray:
    """[size]: the sum of the weights of each index."""
    return np.bincount(index, weights=weight, minlength=size).astype(np.float64)


@dataclass(frozen=True, eq=False, slots=True)
class TrafficGraph:
    """Row ``k`` has the partners of key group ``k``, each once, with the rates in both directions.

    An edge from a key group to itself never leaves its node. It is not in the rows; its rate is
    added to ``self_rate``, so that the collocation factor still counts it.
    """

    indptr: IntArray
    partner: IntArray
    rate_out: FloatArray
    rate_in: FloatArray
    self_rate: float

    @classmethod
    def of(cls, problem: Problem) -> TrafficGraph:
        """Return the graph of the problem's traffic; without traffic it has no edges."""
        if (
            problem.traffic_from is None
            or problem.traffic_to is None
            or problem.traffic_rate is None
        ):
            none, rates = np.zeros(0, dtype=np.int64), np.zeros(0)
            return cls.from_edges(problem.n_key_groups, none, none, rates)
        return cls.from_edges(
            problem.n_key_groups, problem.traffic_from, problem.traffic_to, problem.traffic_rate
        )

    @classmethod
    def from_edges(
        cls, n_vertices: int, source: IntArray, target: IntArray, rate: FloatArray
    ) -> TrafficGraph:
        """Make the graph from directed edges.

        Args:
            n_vertices: The number of key groups.
            source: [E], the key group that sends, in any order.
            target: [E], the key group that receives.
            rate: [E], >= 0; the rates of an edge that occurs more than once are added.
        """
        is_self = source == target
        used = ~is_self & (rate > 0)
        a, b, w = source[used], target[used], rate[used]
        row, column = np.concatenate((a, b)), np.concatenate((b, a))
        code, slot = np.unique(row * np.int64(max(1, n_vertices)) + column, return_inverse=True)
        out = sum_by(slot[: len(a)], w, len(code))
        into = sum_by(slot[len(a) :], w, len(code))
        rows = code // max(1, n_vertices)
        counts = np.bincount(rows, minlength=n_vertices)
        return cls(
            np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            (code % max(1, n_vertices)).astype(np.int64),
            out,
            into,
            float(rate[is_self].sum()),
        )

    @property
    def n_vertices(self) -> int:
        return len(self.indptr) - 1

    @property
    def rate(self) -> FloatArray:
        """The sum of both directions of each entry."""
        both: FloatArray = self.rate_out + self.rate_in
        return both

    @property
    def total_rate(self) -> float:
        """The rate of all edges, including those of a key group to itself."""
        return float(self.rate_out.sum()) + self.self_rate

    def rows(self) -> IntArray:
        """[entries]: the vertex to whose row an entry belongs."""
        return np.repeat(np.arange(self.n_vertices), np.diff(self.indptr))

    def subgraph(self, vertices: IntArray) -> TrafficGraph:
        """Return the graph of some vertices, renumbered in their order."""
        position = np.full(self.n_vertices, -1, dtype=np.int64)
        position[vertices] = np.arange(len(vertices))
        starts, lengths = self.indptr[vertices], np.diff(self.indptr)[vertices]
        owner = np.repeat(np.arange(len(vertices)), lengths)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        entry = starts[owner] + offset
        inside = position[self.partner[entry]] >= 0
        entry, owner = entry[inside], owner[inside]
        counts = np.bincount(owner, minlength=len(vertices))
        return TrafficGraph(
            np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            position[self.partner[entry]],
            self.rate_out[entry],
            self.rate_in[entry],
            0.0,
        )
