"""A proven lower bound of the moves, and of the rounds, until enough traffic is collocated.

The bound ignores load, so every real plan needs at least as many moves. For any price p of a move,
no plan with t moves collocates more than V(p) + p t. V(p) is the maximum of collocated traffic
minus p times moves. On a forest dynamic programming over the nodes of the key groups gives V(p)
exactly. Edges that close cycles count as collocated for free, which only weakens the bound. The
best of many prices is used.
"""

from __future__ import annotations

import math

import numpy as np

from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.traffic_graph import TrafficGraph

PRICES = 60


def fewest_moves(problem: Problem, wanted_rate: float) -> int:
    """Return the moves that any sequence of plans needs before ``wanted_rate`` is collocated.

    Forced moves are included; subtract them where a budget does not count them.
    """
    graph = TrafficGraph.of(problem)
    forest = _Forest(graph)
    fewest = 0.0
    heaviest = 2.0 * float(forest.up_rate.max(initial=0.0))
    for price in np.geomspace(1e-3, 1.0, PRICES) * heaviest if heaviest else []:
        most = forest.most(problem.current, problem.n_nodes, float(price))
        most += forest.free_rate + graph.self_rate
        fewest = max(fewest, (wanted_rate - most) / float(price))
    return max(0, math.ceil(fewest - 1e-6))


def fewest_rounds(problem: Problem, wanted_rate: float, moves_a_round: int) -> int:
    """Return the rounds that any sequence of plans needs before ``wanted_rate`` is collocated."""
    return math.ceil(fewest_moves(problem, wanted_rate) / moves_a_round)


class _Forest:
    """A rooted maximum spanning forest of the traffic. ``order`` has children before parents."""

    def __init__(self, graph: TrafficGraph) -> None:
        n = graph.n_vertices
        self.parent = np.full(n, -1, dtype=np.int64)
        self.up_rate = np.zeros(n)
        children, self.free_rate = _spanning(graph)
        self.order: list[int] = []
        seen = np.zeros(n, dtype=bool)
        for root in range(n):
            if not seen[root]:
                self._walk(root, children, seen)
        self.order.reverse()

    def _walk(self, root: int, near: list[list[tuple[int, float]]], seen: BoolArray) -> None:
        stack = [root]
        seen[root] = True
        while stack:
            v = stack.pop()
            self.order.append(v)
            for u, rate in near[v]:
                if not seen[u]:
                    seen[u] = True
                    self.parent[u], self.up_rate[u] = v, rate
                    stack.append(u)

    def most(self, current: IntArray, n_nodes: int, price: float) -> float:
        """Return V(price): a moved vertex costs the price, an edge on one node earns its rate."""
        value: FloatArray = np.full((len(self.parent), n_nodes), -price)
        value[np.arange(len(current)), current] = 0.0
        total = 0.0
        for v in self.order:
            best = float(value[v].max())
            if self.parent[v] < 0:
                total += best
            else:
                value[self.parent[v]] += np.maximum(value[v] + self.up_rate[v], best)
        return total


def _spanning(graph: TrafficGraph) -> tuple[list[list[tuple[int, float]]], float]:
    """Return the neighbours in the forest (Kruskal), and the rate of the edges left out."""
    rows, rate = graph.rows(), graph.rate
    once = np.flatnonzero(rows < graph.partner)
    root = list(range(graph.n_vertices))
    near: list[list[tuple[int, float]]] = [[] for _ in root]
    left_out = 0.0

    def find(v: int) -> int:
        while root[v] != v:
            root[v] = root[root[v]]
            v = root[v]
        return v

    for entry in once[np.argsort(-rate[once], kind="stable")].tolist():
        a, b, w = int(rows[entry]), int(graph.partner[entry]), float(rate[entry])
        if find(a) == find(b):
            left_out += w
            continue
        root[find(a)] = find(b)
        near[a].append((b, w))
        near[b].append((a, w))
    return near, left_out
