"""Finds the keys of one edge that gain by another key group [MW16-LOCALITY, 3.1].

Key groups are placed first. A key then reaches another node by a route to a key group there.
Operators with the same partition key follow each other: an airplane's records are extracted and
summed on one node, wherever its key goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.identity import split_key_group_name
from solvers.key_routing import METIS, STICKY
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.key_map import KeyMap, KeyMove, KeyMoves, key_group_indices
from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.key_shares import KeyShares
from solvers.key_routing.keys_held_back_by_gate import held_back_keys
from solvers.key_routing.metis_routes import match_labels, metis_routes
from solvers.key_routing.stage_balance import StageBalance
from solvers.key_routing.sticky_search import (
    IMBALANCE,
    CurrentServers,
    StickyParams,
    sticky_routes,
)
from solvers.model.amortisation import AmortisationGate, HeldBack
from solvers.model.key_statistics import KeyStatistics, RoutedEdge, Routing
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.traffic_graph import sum_by


@dataclass(frozen=True, eq=False, slots=True)
class PlacedEdge:
    """An edge whose keys may be routed, under a placement of the key groups.

    Attributes:
        problem: The problem with its measured loads and traffic.
        assignment: [key groups] Node of each key group.
        statistics: Counted keys and key pairs.
        routing: Routes of the plan so far.
        edge: Operators of the two ends.
    """

    problem: Problem
    assignment: IntArray
    statistics: KeyStatistics
    routing: Routing
    edge: RoutedEdge


@dataclass(frozen=True, slots=True)
class ReroutingResult:
    """The keys of an edge that gain elsewhere.

    Attributes:
        moves: The moves of each key, largest gain first.
        reason: Why no key can be routed; empty where keys can.
        held: Keys that would gain and whose gain does not pay for their state.
    """

    moves: tuple[KeyMoves, ...] = ()
    reason: str = ""
    held: tuple[HeldBack, ...] = ()


def reroute(
    placed: PlacedEdge,
    gate: AmortisationGate,
    memory: KeyMemory | None = None,
    *,
    imbalance: float = IMBALANCE,
    seed: int = 0,
    method: str = STICKY,
) -> ReroutingResult:
    """Find the keys of an edge that gain by another key group.

    Args:
        placed: The edge and where its keys are.
        gate: Decides whether a key's gain pays for moving its state.
        memory: Statistics of the edge over several periods; made from ``placed`` if None.
        imbalance: Most records of a node over the mean, for each stage.
        seed: Seed of the graph partitioning.
        method: Name of the method.

    Returns:
        The keys with their moves, or the reason why no key can be routed.
    """
    reason = rerouting_obstacle(placed)
    if reason is not None:
        return ReroutingResult(reason=reason)
    problem, edge, statistics = placed.problem, placed.edge, placed.statistics
    if memory is None:
        memory = KeyMemory.of(statistics, edge, problem.n_nodes, imbalance, seed=seed)
    keys = KeyMap(problem, placed.routing)
    shares = KeyShares(statistics, keys)
    graph = memory.graph(lambda side, key: _state_bytes(shares, edge, side, key))
    # Every node stays (see rerouting_obstacle), so a server is a node.
    before = placed.assignment[key_group_indices(graph, keys, edge)]
    if method == METIS:
        server = _by_metis(graph, before, problem.n_nodes, seed)
    else:
        server = sticky_routes(
            graph,
            CurrentServers.all_known(before, problem.n_nodes),
            StickyParams(imbalance, gate),
            seed=seed,
            views=memory.views(graph),
        ).server
    picker = _KeyGroupPicker(shares, placed.assignment)
    ends = (edge.left[0], edge.right[0])
    held = held_back_keys(graph, server, before, problem.n_nodes, gate, ends)
    moves = (
        picker.moves(
            edge.left if vertex < graph.n_left else edge.right,
            graph.keys[vertex].decode(),
            int(server[vertex]),
        )
        for vertex in _moved_by_gain(graph, before, server)
    )
    return ReroutingResult(tuple(of_key for of_key in moves if of_key), held=held)


def _by_metis(graph: KeyGraph, before: IntArray, n_servers: int, seed: int) -> IntArray:
    """[vertices]: the servers by METIS [MW16-LOCALITY, 3.3], with parts renamed to move less."""
    return match_labels(graph, metis_routes(graph, n_servers, seed=seed), before, n_servers)


def rerouting_obstacle(placed: PlacedEdge) -> str | None:
    """Return why no key of the edge can be routed; None where keys can."""
    problem, edge = placed.problem, placed.edge
    if not placed.statistics.pairs.get(edge.ends):
        return f"no pairs of keys were counted from {edge.ends[0]} to {edge.ends[1]}"
    if not problem.staying.all():
        return "keys get no new routes while nodes drain or are dead"
    if np.ptp(problem.capacity, axis=0).max(initial=0.0) > 0:
        return "keys are routed only between nodes of the same capacity"
    names = [split_key_group_name(name)[0] for name in problem.key_group_ids]
    for operator in (*edge.left, *edge.right):
        nodes = {int(placed.assignment[row]) for row, name in enumerate(names) if name == operator}
        if len(nodes) < problem.n_nodes:
            return f"not every node holds key groups of {operator}"
    return None


def fullest_shares(
    problem: Problem,
    assignment: IntArray,
    memory: KeyMemory,
    routing: Routing,
    edge: RoutedEdge,
    imbalance: float,
) -> FloatArray:
    """Return [stages x views]: records of the fullest node over what the bound allows a node."""
    graph, views = memory.balance_views
    balance = StageBalance.of(graph, problem.n_nodes, imbalance, views)
    node = assignment[key_group_indices(graph, KeyMap(problem, routing), edge)]
    stages = [graph.stage(side) for side in (LEFT, RIGHT)]
    loads = [balance.load(node[stage], stage).max(axis=0, initial=0.0) for stage in stages]
    return np.concatenate(loads)


def _state_bytes(shares: KeyShares, edge: RoutedEdge, side: int, key: bytes) -> float:
    """Return the bytes that a key moves, summed over the operators that share its partition key."""
    operators = edge.left if side == LEFT else edge.right
    return sum(shares.state_bytes(operator, key.decode()) for operator in operators)


def _moved_by_gain(graph: KeyGraph, before: IntArray, after: IntArray) -> list[int]:
    """Return the vertices that change servers, largest gain in local records first."""
    was = before[graph.edge_left] == before[graph.edge_right]
    now = after[graph.edge_left] == after[graph.edge_right]
    change = graph.edge_weight * (now.astype(np.float64) - was)
    ends = np.concatenate((graph.edge_left, graph.edge_right))
    gain = sum_by(ends, np.concatenate((change, change)), graph.n_vertices)
    moved = np.flatnonzero(after != before)
    ordered: list[int] = moved[np.argsort(-gain[moved], kind="stable")].tolist()
    return ordered


class _KeyGroupPicker:
    """Chooses a key group on a node: the key's hashed one if it is there, else the emptiest."""

    def __init__(self, shares: KeyShares, assignment: IntArray) -> None:
        self.shares, self.assignment = shares, assignment
        self.keys, self.statistics = shares.keys, shares.statistics
        names = self.keys.problem.key_group_ids
        self.rate = np.array([self.statistics.group_rate.get(name, 0.0) for name in names])

    def moves(self, operators: Sequence[str], key: str, node: int) -> KeyMoves:
        """Return the moves that bring a key to a node, and count its records there."""
        moves = []
        for operator in operators:
            source = self.keys.row(operator, key)
            if self.assignment[source] == node:
                continue
            target = self._target(operator, key, node)
            rate = self.statistics.keys.get(operator, {}).get(key, 0.0)
            self.rate[source] -= rate
            self.rate[target] += rate
            n_bytes = self.shares.state_bytes(operator, key)
            moves.append(KeyMove(operator, key, source, target, n_bytes))
        return tuple(moves)

    def _target(self, operator: str, key: str, node: int) -> int:
        rows = self.keys.groups[operator]
        own = rows[self.keys.hashed(operator, key)]
        if self.assignment[own] == node:
            return own
        there = [row for row in rows if self.assignment[row] == node]
        return min(there, key=lambda row: (self.rate[row], row))
