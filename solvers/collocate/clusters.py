"""Clusters of key groups: heavy edges, the sets that they connect, and how to split a set.

An edge is heavy if its rate is more than sF times what a key group sends to a downstream key group
on average [ICDE17, 4.3.2, step 1].
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from solvers.collocate.partition import cut_off
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.traffic_graph import TrafficGraph

ROUNDING = 1e-9
"""Relative: a part that is over its limit by less is not split again."""
PIECE = 0.95
"""Share of the limit to aim at, because METIS can exceed the weight of a part a little."""


def downstream_key_groups(problem: Problem, graph: TrafficGraph) -> IntArray:
    """Return [key groups]: the number of key groups of all downstream operators.

    Operators are opaque [ICDE17, 4.3.2], so an operator is downstream if traffic flows to it.
    """
    operators, of_group = np.unique(np.array(problem.operator_ids), return_inverse=True)
    sends = graph.rate_out > 0
    pairs = np.unique(
        of_group[graph.rows()[sends]] * np.int64(max(1, len(operators)))
        + of_group[graph.partner[sends]]
    )
    sizes = np.bincount(of_group, minlength=len(operators))
    counts = np.bincount(
        pairs // max(1, len(operators)),
        weights=sizes[pairs % max(1, len(operators))],
        minlength=len(operators),
    )
    return counts.astype(np.int64)[of_group]


def heavy_mask(problem: Problem, graph: TrafficGraph, score_factor: float) -> BoolArray:
    """Return [entries]: out[g_k][g_j] > avg(g_k) x sF (Algorithm 2, lines 2-8), k the sender."""
    rows = graph.rows()
    output = np.bincount(rows, weights=graph.rate_out, minlength=graph.n_vertices)
    average = output / np.maximum(1, downstream_key_groups(problem, graph))
    return np.asarray((graph.rate_out > 0) & (graph.rate_out > average[rows] * score_factor))


def connected_sets(n_vertices: int, a: Iterable[int], b: Iterable[int]) -> list[IntArray]:
    """Join pairs with a common vertex to sets (``calcSets`` of Algorithm 2), by union-find.

    Returns:
        The sets of two or more vertices.
    """
    parent = list(range(n_vertices))

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    for u, v in zip(a, b, strict=True):
        parent[root(u)] = root(v)
    members: dict[int, list[int]] = {}
    for v in range(n_vertices):
        members.setdefault(root(v), []).append(v)
    return [np.array(vs, dtype=np.int64) for vs in members.values() if len(vs) > 1]


def split_to_fit(
    graph: TrafficGraph,
    members: IntArray,
    weight: FloatArray,
    limit: float,
    seed: int,
    piece: float | None = None,
) -> list[IntArray]:
    """Split a set into parts of at most ``limit`` weight, where single vertices allow it.

    Even parts would often fill a node badly, so all parts but one weigh about ``piece``.

    Args:
        graph: Traffic between the vertices.
        members: Vertices of the set.
        weight: [members] Weight of each vertex.
        limit: Largest weight of a part.
        seed: Seed of the graph partitioning.
        piece: Weight to aim at; a little under the limit if None.
    """
    total = float(weight.sum())
    if len(members) <= 1 or total <= limit * (1 + ROUNDING):
        return [members]
    if limit <= 0:
        return [members[i : i + 1] for i in range(len(members))]
    piece = PIECE * limit if piece is None else piece
    share = max(1.0, total / piece // 2) * piece / total
    inside = cut_off(graph.subgraph(members), weight, min(share, 0.99), seed=seed)
    return [
        part
        for side in (inside, ~inside)
        for part in split_to_fit(graph, members[side], weight[side], limit, seed, piece)
    ]
