"""Which keys belong to which key group, so that keys that talk come to one node [MW16-LOCALITY,
3.1].

Key groups are placed first; a key is then brought to another node by routing it to a key group
there. Operators with the same partition key follow each other: an airplane's records are extracted
and summed on one node wherever its key goes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ballast.contracts.identity import hashed_key_group, key_group_name, split_key_group_name
from solvers.key_routing.held_back_keys import held_back_keys
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.stage_balance import StageBalance
from solvers.key_routing.sticky_search import IMBALANCE, StickyParams, sticky_routes
from solvers.model.amortisation import AmortisationGate, HeldBack
from solvers.model.key_statistics import KeyStatistics, RoutedEdge, Routing
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.traffic_graph import sum_by


@dataclass(frozen=True, slots=True)
class KeyMove:
    """A key of an operator that comes to another key group, with its share of the state."""

    operator: str
    key: str
    source: int  # rows of the problem
    target: int
    bytes: float


@dataclass(frozen=True, slots=True)
class ReroutingResult:
    """Keys in the order of what they gain; each with its moves, one an operator that follows."""

    moves: tuple[tuple[KeyMove, ...], ...] = ()
    reason: str = ""
    held: tuple[HeldBack, ...] = ()


class KeyMap:
    """Where keys are: by route or by hash, as rows of the problem."""

    def __init__(self, problem: Problem, routing: Routing) -> None:
        self.problem, self.routing = problem, routing
        self.row_of = {name: row for row, name in enumerate(problem.key_group_ids)}
        self.groups: dict[str, list[int]] = {}
        for row, name in enumerate(problem.key_group_ids):
            self.groups.setdefault(split_key_group_name(name)[0], []).append(row)

    def group(self, operator: str, key: str) -> int:
        """Number of the key group within its operator."""
        found = self.routing.get(operator, {}).get(key)
        return self.hashed(operator, key) if found is None else found

    def hashed(self, operator: str, key: str) -> int:
        return hashed_key_group(key, len(self.groups[operator]))

    def row(self, operator: str, key: str) -> int:
        return self.row_of[key_group_name(operator, self.group(operator, key))]


def reroute(
    problem: Problem,
    assignment: IntArray,
    statistics: KeyStatistics,
    routing: Routing,
    edge: RoutedEdge,
    gate: AmortisationGate,
    memory: KeyMemory | None = None,
    *,
    imbalance: float = IMBALANCE,
    seed: int = 0,
) -> ReroutingResult:
    """The keys of an edge that are better off elsewhere, under a placement of the key groups.

    ``memory`` is what the statistics say of the edge, if that is known already.
    """
    reason = why_not(problem, assignment, statistics, edge)
    if reason is not None:
        return ReroutingResult(reason=reason)
    if memory is None:
        memory = KeyMemory.of(statistics, edge, problem.n_nodes, imbalance, seed=seed)
    keys = KeyMap(problem, routing)
    share = KeyShares(statistics, keys)
    graph = memory.graph(lambda side, key: _state_bytes(share, edge, side, key))
    servers = np.flatnonzero(problem.staying)
    server_of = np.full(problem.n_nodes, -1, dtype=np.int64)
    server_of[servers] = np.arange(len(servers))
    before = server_of[assignment[key_group_rows(graph, keys, edge)]]
    known = np.ones(graph.n_vertices, dtype=bool)
    plan = sticky_routes(
        graph, before, known, len(servers), StickyParams(imbalance, gate), seed=seed,
        views=memory.views(graph),
    )  # fmt: skip
    gain = _gains(graph, before, plan.server)
    moved = np.flatnonzero(plan.server != before)
    order = moved[np.argsort(-gain[moved], kind="stable")]
    picker = _Picker(keys, statistics, assignment)
    found = []
    for vertex in order.tolist():
        operators = edge.left if vertex < graph.n_left else edge.right
        node = int(servers[plan.server[vertex]])
        moves = picker.moves(operators, graph.keys[vertex].decode(), node, share)
        if moves:
            found.append(moves)
    ends = (edge.left[0], edge.right[0])
    held = held_back_keys(graph, plan.server, before, len(servers), gate, ends)
    return ReroutingResult(tuple(found), held=held)


def why_not(
    problem: Problem, assignment: IntArray, statistics: KeyStatistics, edge: RoutedEdge
) -> str | None:
    """Why no keys of an edge can be routed anew; None where they can."""
    if not statistics.pairs.get(edge.ends):
        return f"no pairs of keys were counted from {edge.ends[0]} to {edge.ends[1]}"
    if not problem.staying.all():
        return "keys are not routed anew while nodes drain or are dead"
    if np.ptp(problem.capacity, axis=0).max(initial=0.0) > 0:
        return "keys are routed between nodes of the same capacity alone"
    names = [split_key_group_name(name)[0] for name in problem.key_group_ids]
    for operator in (*edge.left, *edge.right):
        held = {int(assignment[row]) for row, name in enumerate(names) if name == operator}
        if len(held) < problem.n_nodes:
            return f"not every node holds key groups of {operator}"
    return None


class KeyShares:
    """A key's share of its key group, by records."""

    def __init__(self, statistics: KeyStatistics, keys: KeyMap) -> None:
        self.statistics, self.keys = statistics, keys

    def of(self, operator: str, key: str) -> float:
        total = self._total(operator, key)
        rate = self.statistics.keys.get(operator, {}).get(key, 0.0)
        return min(1.0, rate / total) if total > 0 else 0.0

    def load(self, operator: str, key: str) -> FloatArray:
        """[resources]: what it takes along of its key group's load."""
        problem = self.keys.problem
        taken: FloatArray = self.of(operator, key) * problem.load[self.keys.row(operator, key)]
        return taken

    def state_bytes(self, operator: str, key: str) -> float:
        """The most that it may hold: a key that was not kept has at least what its pairs have."""
        row = self.keys.row(operator, key)
        return self._most(operator, key) * float(self.keys.problem.state_bytes[row])

    def _most(self, operator: str, key: str) -> float:
        rate = self.statistics.keys.get(operator, {}).get(key)
        if rate is None:
            rate = self._last_known(operator, key)
        else:
            rate += self.statistics.errors.get(operator, {}).get(key, 0.0)
        rate = max(rate, self._of_pairs.get((operator, key), 0.0))
        total = self._total(operator, key)
        if rate <= 0:
            return 0.0
        return min(1.0, rate / total) if total > 0 else 1.0

    def _last_known(self, operator: str, key: str) -> float:
        """A key that is quiet keeps its state: what it had of its operator when last counted.

        One that was never counted has at most what all that were not counted may have.
        """
        for period in reversed(self.statistics.earlier):
            then = period.counted
            if key in then.keys.get(operator, {}):
                rate = then.keys[operator][key] + then.errors.get(operator, {}).get(key, 0.0)
                now, before = (s.totals.get(operator, 0.0) for s in (self.statistics, then))
                return rate * now / before if now > 0 and before > 0 else rate
        return self.statistics.missed.get(operator, 0.0)

    def _total(self, operator: str, key: str) -> float:
        row = self.keys.row(operator, key)
        return self.statistics.group_rate.get(self.keys.problem.key_group_ids[row], 0.0)

    @cached_property
    def _of_pairs(self) -> dict[tuple[str, str], float]:
        return _rates_of_pairs(self.statistics)


def _rates_of_pairs(statistics: KeyStatistics) -> dict[tuple[str, str], float]:
    """By operator and key: what its pairs say it has, by the edge that says most.

    Edges are not added up, for the same record may go out on several.
    """
    most: dict[tuple[str, str], float] = {}
    for ends, pairs in statistics.pairs.items():
        for side, operator in enumerate(ends):
            sums: dict[str, float] = {}
            for pair, rate in pairs.items():
                sums[pair[side]] = sums.get(pair[side], 0.0) + rate
            for key, rate in sums.items():
                most[operator, key] = max(rate, most.get((operator, key), 0.0))
    return most


def _state_bytes(share: KeyShares, edge: RoutedEdge, side: int, key: bytes) -> float:
    """What moving a key moves, at every operator that follows it."""
    operators = edge.left if side == LEFT else edge.right
    return sum(share.state_bytes(operator, key.decode()) for operator in operators)


def fullest_shares(
    problem: Problem,
    assignment: IntArray,
    memory: KeyMemory,
    routing: Routing,
    edge: RoutedEdge,
    imbalance: float,
) -> FloatArray:
    """[ends x memories]: records of the node that has most over what the bound allows a node."""
    graph, views = memory.weighed
    balance = StageBalance.of(graph, problem.n_nodes, imbalance, views)
    node = assignment[key_group_rows(graph, KeyMap(problem, routing), edge)]
    stages = [graph.stage(side) for side in (LEFT, RIGHT)]
    loads = [balance.load(node[stage], stage).max(axis=0, initial=0.0) for stage in stages]
    return np.concatenate(loads)


def key_group_rows(graph: KeyGraph, keys: KeyMap, edge: RoutedEdge) -> IntArray:
    """[vertices]: the key group of each key at the operator whose pairs were counted."""
    return np.array(
        [
            keys.row(edge.left[0] if v < graph.n_left else edge.right[0], key.decode())
            for v, key in enumerate(graph.keys)
        ],
        dtype=np.int64,
    )


def _gains(graph: KeyGraph, before: IntArray, after: IntArray) -> FloatArray:
    """[vertices]: records a second that are local by the plan and were not, by either end."""
    was = before[graph.edge_left] == before[graph.edge_right]
    now = after[graph.edge_left] == after[graph.edge_right]
    change = graph.edge_weight * (now.astype(np.float64) - was)
    ends = np.concatenate((graph.edge_left, graph.edge_right))
    return sum_by(ends, np.concatenate((change, change)), graph.n_vertices)


class _Picker:
    """Chooses key groups on a node: the hash's own where it is there, else the emptiest."""

    def __init__(self, keys: KeyMap, statistics: KeyStatistics, assignment: IntArray) -> None:
        self.keys, self.statistics, self.assignment = keys, statistics, assignment
        names = keys.problem.key_group_ids
        self.rate = np.array([statistics.group_rate.get(name, 0.0) for name in names])

    def moves(
        self, operators: Sequence[str], key: str, node: int, share: KeyShares
    ) -> tuple[KeyMove, ...]:
        made = []
        for operator in operators:
            source = self.keys.row(operator, key)
            if self.assignment[source] == node:
                continue
            target = self._target(operator, key, node)
            rate = self.statistics.keys.get(operator, {}).get(key, 0.0)
            self.rate[source] -= rate
            self.rate[target] += rate
            made.append(KeyMove(operator, key, source, target, share.state_bytes(operator, key)))
        return tuple(made)

    def _target(self, operator: str, key: str, node: int) -> int:
        rows = self.keys.groups[operator]
        own = rows[self.keys.hashed(operator, key)]
        if self.assignment[own] == node:
            return own
        there = [row for row in rows if self.assignment[row] == node]
        return min(there, key=lambda row: (self.rate[row], row))


def routing_after(problem: Problem, routing: Routing, moves: Sequence[KeyMove]) -> Routing:
    """The routing with these moves made; a key that is back where its hash is needs no route."""
    keys = KeyMap(problem, routing)
    changed = {operator: dict(routes) for operator, routes in routing.items()}
    for move in moves:
        group = split_key_group_name(problem.key_group_ids[move.target])[1]
        routes = changed.setdefault(move.operator, {})
        if group == keys.hashed(move.operator, move.key):
            routes.pop(move.key, None)
        else:
            routes[move.key] = group
    return {operator: routes for operator, routes in changed.items() if routes}


def moves_between(
    problem: Problem, statistics: KeyStatistics, before: Routing, after: Routing
) -> list[KeyMove]:
    """Every key whose key group differs, by the routings alone."""
    was, will_be = KeyMap(problem, before), KeyMap(problem, after)
    share = KeyShares(statistics, was)
    found = []
    for operator in sorted(before.keys() | after.keys()):
        for key in sorted(before.get(operator, {}).keys() | after.get(operator, {}).keys()):
            source, target = was.row(operator, key), will_be.row(operator, key)
            if source != target:
                n_bytes = share.state_bytes(operator, key)
                found.append(KeyMove(operator, key, source, target, n_bytes))
    return found


def problem_after(
    problem: Problem, statistics: KeyStatistics, before: Routing, after: Routing
) -> Problem:
    """Loads and traffic as they will be once the keys are routed anew.

    A key takes its share of its key group's load along, by records; a pair takes its rate from the
    one pair of key groups to the other.
    """
    moves = moves_between(problem, statistics, before, after)
    if not moves:
        return problem
    was, will_be = KeyMap(problem, before), KeyMap(problem, after)
    share = KeyShares(statistics, was)
    load = problem.load.copy()
    for move in moves:
        taken = share.load(move.operator, move.key)
        load[move.source] -= taken
        load[move.target] += taken
    source, target, rate = _traffic_after(problem, statistics, was, will_be)
    return dataclasses.replace(
        problem,
        load=np.maximum(load, 0.0),
        traffic_from=source,
        traffic_to=target,
        traffic_rate=rate,
    )


def _traffic_after(
    problem: Problem, statistics: KeyStatistics, was: KeyMap, will_be: KeyMap
) -> tuple[IntArray, IntArray, FloatArray]:
    rates = traffic_by_ends(problem)
    leaving: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
    for (left, right), pairs in statistics.pairs.items():
        for (a, b), rate in pairs.items():
            old = was.row(left, a), was.row(right, b)
            new = will_be.row(left, a), will_be.row(right, b)
            if old != new:
                of_flow = leaving.setdefault(old, {})
                of_flow[new] = of_flow.get(new, 0.0) + rate
    measured = dict(rates)
    for old, of_flow in leaving.items():
        # Pairs may have been counted in other batches than the flow: none takes what is not there.
        has, wanted = measured.get(old, 0.0), sum(of_flow.values())
        share = min(1.0, has / wanted) if wanted > 0 else 0.0
        for new, rate in of_flow.items():
            rates[old] = rates.get(old, 0.0) - share * rate
            rates[new] = rates.get(new, 0.0) + share * rate
    flows = sorted(rates)
    return (
        np.array([flow[0] for flow in flows], dtype=np.int64),
        np.array([flow[1] for flow in flows], dtype=np.int64),
        np.array([max(0.0, rates[flow]) for flow in flows], dtype=np.float64),
    )


def traffic_by_ends(problem: Problem) -> dict[tuple[int, int], float]:
    """Rates by the rows of the two key groups; empty without traffic."""
    rates: dict[tuple[int, int], float] = {}
    if problem.traffic_from is None or problem.traffic_to is None or problem.traffic_rate is None:
        return rates
    ends = zip(problem.traffic_from.tolist(), problem.traffic_to.tolist(), strict=True)
    for flow, rate in zip(ends, problem.traffic_rate.tolist(), strict=True):
        rates[flow] = rates.get(flow, 0.0) + rate
    return rates
