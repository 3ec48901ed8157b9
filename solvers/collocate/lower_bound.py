"""Proven bounds of the traffic that a number of moves can collocate.

``fewest_moves`` and ``fewest_rounds`` are lower bounds of the moves and rounds until enough traffic
is collocated, ``most_local_rate`` is an upper bound of the traffic after some moves.

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
LOWEST_PRICE = 1e-3
"""The lowest price that is tried, as a share of the highest one."""
BATCH = 4_000_000
"""Numbers in memory at once, for several prices."""
MOST_CHOICES = 5_000_000
"""Key groups times nodes up to which the forest is used: seconds."""


def fewest_moves(problem: Problem, wanted_rate: float) -> int:
    """Return the moves that any sequence of plans needs before ``wanted_rate`` is collocated.

    Forced moves are included; subtract them where a budget does not count them.
    """
    graph = TrafficGraph.of(problem)
    forest = _Forest(graph)
    prices = forest.prices()
    most = forest.most(problem.current, problem.n_nodes, prices)
    most += forest.free_rate + graph.self_rate
    fewest = float(((wanted_rate - most) / prices).max(initial=0.0))
    return max(0, math.ceil(fewest - 1e-6))


def fewest_rounds(problem: Problem, wanted_rate: float, moves_a_round: int) -> int:
    """Return the rounds that any sequence of plans needs before ``wanted_rate`` is collocated."""
    return math.ceil(fewest_moves(problem, wanted_rate) / moves_a_round)


def most_local_rate(problem: Problem, graph: TrafficGraph, moves: int) -> float:
    """Return a rate that no plan with this many moves, forced ones included, collocates more of.

    A move brings at most the remote traffic of its key group onto one node. The forest bounds the
    moves together, for each price; the best of many prices is used.
    """
    rows = graph.rows()
    is_remote = problem.current[rows] != problem.current[graph.partner]
    remote = np.bincount(rows, weights=graph.rate * is_remote, minlength=graph.n_vertices)
    most = np.sort(remote)[::-1][:moves].sum() + graph.total_rate - remote.sum() / 2.0
    least = min(float(most), graph.total_rate)
    if graph.n_vertices * problem.n_nodes > MOST_CHOICES:
        return least
    forest = _Forest(graph)
    prices = forest.prices()
    if not len(prices):
        return least
    rates = forest.most(problem.current, problem.n_nodes, prices) + prices * moves
    return min(least, float(rates.min()) + forest.free_rate + graph.self_rate)


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

    def prices(self) -> FloatArray:
        """Return the prices of a move that are tried; none without traffic."""
        heaviest = 2.0 * float(self.up_rate.max(initial=0.0))
        if heaviest <= 0:
            return np.zeros(0)
        prices: FloatArray = np.geomspace(LOWEST_PRICE, 1.0, PRICES) * heaviest
        return prices

    def most(self, current: IntArray, n_nodes: int, prices: FloatArray) -> FloatArray:
        """Return V of each price: a moved vertex costs it, an edge on one node earns its rate."""
        at_once = max(1, BATCH // max(1, len(current) * n_nodes))
        found = [
            self._most(current, n_nodes, prices[begin : begin + at_once])
            for begin in range(0, len(prices), at_once)
        ]
        return np.concatenate([np.zeros(0), *found])

    def _most(self, current: IntArray, n_nodes: int, prices: FloatArray) -> FloatArray:
        value: FloatArray = np.empty((len(self.parent), len(prices), n_nodes))
        value[:] = -prices[:, None]
        value[np.arange(len(current)), :, current] = 0.0
        total = np.zeros(len(prices))
        for v in self.order:
            best = value[v].max(axis=1)
            if self.parent[v] < 0:
                total += best
            else:
                value[self.parent[v]] += np.maximum(value[v] + self.up_rate[v], best[:, None])
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
