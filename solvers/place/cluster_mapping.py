"""Mapping of operators to clusters of different size: [DODO, 6.2].

The static mapping is the greedy for number partitioning, with sums divided by the number of nodes
of the cluster (6.2.1). The dynamic mapping is Algorithm 1 (6.2.2): pairwise moves by correlation of
load series; the sizes N1 / N2 keep operators from moving back. With
``weigh_by_capacity`` False it is the paper's variant without capacity, for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import FloatArray, IntArray
from solvers.place.imbalance import as_assignment, as_series


@dataclass(frozen=True, slots=True)
class Transmission:
    """A move of an operator from one cluster to another."""

    operator: int
    from_cluster: int
    to_cluster: int


def static_mapping(load: object, nodes: object) -> IntArray:
    """Map operators, largest first, each to the cluster whose average load is smallest with it.

    An operator adds s_P / N_j to a cluster of N_j nodes. The averages are compared with the
    operator included, so that a large operator does not go to an empty cluster that is too small.

    Args:
        load: [p], load of each operator.
        nodes: [clusters], number of nodes of each cluster.
    """
    loads = as_series(load)[:, 0]
    sizes = _sizes(nodes)
    sums = np.zeros(len(sizes))
    mapping = np.zeros(len(loads), dtype=np.int64)
    for k in np.lexsort((np.arange(len(loads)), -loads)):
        after = (sums + loads[k]) / sizes
        cluster = int(np.argmin(after))
        mapping[k] = cluster
        sums[cluster] += loads[k]
    return mapping


def dynamic_mapping(
    series: object,
    current: object,
    nodes: object,
    *,
    load_threshold: float,
    correlation_threshold: float,
    weigh_by_capacity: bool = True,
) -> tuple[Transmission, ...]:
    """Algorithm 1. A cluster's series is its operators' loads over its number of nodes (Eq. 1)."""
    x = as_series(series)
    sizes = _sizes(nodes)
    mapping = as_assignment(current, len(x), len(sizes))
    used = sizes if weigh_by_capacity else np.ones_like(sizes)
    averages = np.array([x[mapping == c].sum(axis=0) for c in range(len(sizes))]) / used[:, None]
    mapped = _MappedOperators(x, mapping, averages, used)
    moves: list[Transmission] = []
    for c1, c2 in paired_clusters(averages.mean(axis=1)):
        difference = float(averages[c1].mean() - averages[c2].mean())
        alike = correlation(averages[c1], averages[c2])
        if difference > load_threshold and alike < correlation_threshold:
            moves += mapped.moves_between(c1, c2, difference)
    return tuple(moves)


@dataclass(frozen=True, eq=False, slots=True)
class _MappedOperators:
    """Operators with their load series, and the clusters they are mapped to."""

    series: FloatArray  # [operators, windows]
    mapping: IntArray  # [operators] cluster
    averages: FloatArray  # [clusters, windows] load a node
    sizes: FloatArray  # [clusters] nodes

    def moves_between(self, c1: int, c2: int, difference: float) -> list[Transmission]:
        """Moves out of the fuller cluster, worst fitting operators first (lines 3-9)."""
        x, sizes = self.series, self.sizes
        members = np.flatnonzero(self.mapping == c1).tolist()
        # Equal misfits differ by rounding only; then the operator with more load moves first.
        order = sorted(members, key=lambda k: (-round(self._misfit(k, c1, c2), 9), -x[k].mean(), k))
        total, moves = 0.0, []
        for k in order:
            average = float(x[k].mean()) / float(sizes[c1])
            if (average + total) * float(sizes[c1] / sizes[c2]) < difference / 2:
                moves.append(Transmission(k, c1, c2))
                total += average
        return moves

    def _misfit(self, k: int, c1: int, c2: int) -> float:
        """(rho(S_P, S_C1) - rho(S_P, S_C2)) / 2, with C1 without the operator itself."""
        others = self.averages[c1] - self.series[k] / self.sizes[c1]
        own = correlation(self.series[k], others)
        return (own - correlation(self.series[k], self.averages[c2])) / 2


def paired_clusters(averages: FloatArray) -> list[tuple[int, int]]:
    """Pairs of the fullest and the emptiest cluster, and so on; a middle one has no partner."""
    order = np.lexsort((np.arange(len(averages)), -averages)).tolist()
    return [(order[i], order[-1 - i]) for i in range(len(order) // 2)]


def correlation(a: FloatArray, b: FloatArray) -> float:
    """Eq. 5; 0 if a series does not vary."""
    spread = float(a.std() * b.std())
    if spread <= 1e-12 * max(1.0, float(np.abs(a).max(initial=0) * np.abs(b).max(initial=0))):
        return 0.0
    return float((a * b).mean() - a.mean() * b.mean()) / spread


def mapping_after(current: object, moves: tuple[Transmission, ...]) -> IntArray:
    """The mapping after the moves."""
    mapping = np.array(current, dtype=np.int64)
    for move in moves:
        mapping[move.operator] = move.to_cluster
    return mapping


def _sizes(nodes: object) -> FloatArray:
    sizes = np.array(nodes, dtype=np.float64).reshape(-1)
    if not len(sizes) or not bool((np.isfinite(sizes) & (sizes > 0)).all()):
        raise InvalidInput(
            "a cluster has no node", allowed="at least one cluster, each of at least one node"
        )
    return sizes
