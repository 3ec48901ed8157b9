"""Checks the routes of a plan and their promised figures; shares no code with any solver.

Like ``solvers.verify.assignment`` it takes the problem, the counted rates and the routes, and
recomputes loads, traffic, bytes, pause and balance with code of its own, on whole columns.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ballast.contracts.identity import hashed_key_group, split_key_group_name
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.budget import Budget
    from solvers.model.key_statistics import KeyStatistics, RoutedEdge
    from solvers.model.problem import Problem

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Routes = Mapping[str, Mapping[str, int]]
Rates = Mapping[str, float]

TOLERANCE = 1e-6
"""Relative tolerance: sums of the same rates in another order differ by less."""
ROUNDING_S = 1e-9
BALANCE = "routes.balance"


@dataclass(frozen=True)
class RouteRules:
    """Limits of the policy on routes."""

    key_groups: Mapping[str, int]
    """Number of key groups of each operator."""
    edges: tuple[RoutedEdge, ...] = ()
    max_routes: int = 100_000
    imbalance: float = 1.1
    decays: tuple[float, ...] = (0.0,)
    """Decays under which the balance must hold: the factor of a period's weight per round."""


def row_violations(
    rules: RouteRules, before: Routes, routes: Sequence[tuple[str, str, int]]
) -> Iterator[Violation]:
    """Check that each key has at most one route, to a key group of its operator.

    If more routes are in force than the policy allows now, they may stay, but not increase.
    """
    for operator, key, group in routes:
        if not 0 <= group < rules.key_groups.get(operator, 0):
            yield Violation("routes", f"key {key!r} of {operator!r} is routed to key group {group}")
    for (operator, key), count in Counter((o, k) for o, k, _ in routes).items():
        if count > 1:
            yield Violation("routes", f"key {key!r} of {operator!r} has {count} routes")
    for operator, count in Counter(operator for operator, _, _ in routes).items():
        allowed = max(rules.max_routes, len(before.get(operator, {})))
        if count > allowed:
            yield Violation("routes", f"{count} routes of {operator!r}, allowed {allowed}")


class RoutedFacts:
    """Loads, traffic and costs under a plan's routes, recomputed from the rows."""

    def __init__(
        self, problem: Problem, statistics: KeyStatistics, before: Routes, after: Routes
    ) -> None:
        self.problem, self.statistics = problem, statistics
        self.before, self.after = before, after
        self._row: dict[tuple[str, int], int] = {}
        self._size: Counter[str] = Counter()
        for row, name in enumerate(problem.key_group_ids):
            operator, number = split_key_group_name(name)
            self._row[operator, number] = row
            self._size[operator] += 1
        self.changes = list(self._changes())
        """Operator, key, and the rows of the key group before and after."""

    def row_of(self, routes: Routes, operator: str, key: str) -> int:
        """Return the row of the key group that a key belongs to."""
        number = routes.get(operator, {}).get(key, -1)
        if number < 0:
            number = hashed_key_group(key, self._size[operator])
        return self._row[operator, number]

    def _changes(self) -> Iterator[tuple[str, str, int, int]]:
        for operator in {*self.before, *self.after}:
            named = {*self.before.get(operator, {}), *self.after.get(operator, {})}
            for key in named:
                old, new = (self.row_of(r, operator, key) for r in (self.before, self.after))
                if old != new:
                    yield operator, key, old, new

    @property
    def figures(self) -> dict[str, float | int]:
        """Number and cost of the routes."""
        n_bytes = math.ceil(math.fsum(self._bytes(o, k, old) for o, k, old, _ in self.changes))
        touched = len({row for change in self.changes for row in change[2:]})
        pause_s = self.problem.pause_c0_s * touched + self.problem.pause_s_per_byte * n_bytes
        return {
            "routes": sum(len(routes) for routes in self.after.values()),
            "rerouted_keys": len(self.changes),
            "route_bytes": n_bytes,
            "route_pause_s": pause_s,
        }

    def _bytes(self, operator: str, key: str, row: int) -> float:
        """Return an upper bound of a key's state.

        It is the key's share of the records times the state of its key group.
        """
        most = self._most_records(operator, key)
        total = self.statistics.group_rate.get(self.problem.key_group_ids[row], 0.0)
        part = 0.0 if most <= 0 else 1.0 if total <= most else most / total
        return part * float(self.problem.state_bytes[row])

    def _most_records(self, operator: str, key: str) -> float:
        counted = self.statistics
        most = self._in_pairs.get((operator, key), 0.0)
        if key in counted.keys.get(operator, {}):
            return max(most, _upper(counted, operator, key))
        known = [
            period.counted
            for period in counted.earlier
            if key in period.counted.keys.get(operator, {})
        ]
        if not known:
            return max(most, counted.missed.get(operator, 0.0))
        was, now = known[-1].totals.get(operator, 0.0), counted.totals.get(operator, 0.0)
        scale = now / was if min(was, now) > 0 else 1.0
        return max(most, scale * _upper(known[-1], operator, key))

    @cached_property
    def _in_pairs(self) -> dict[tuple[str, str], float]:
        """Records of keys by their pairs, on the edge with most; edges may share a record."""
        most: dict[tuple[str, str], float] = {}
        for ends, pairs in self.statistics.pairs.items():
            for side, operator in enumerate(ends):
                sums = _summed([(1.0, ((pair[side], rate) for pair, rate in pairs.items()))])
                for key, rate in sums.items():
                    most[operator, key] = max(rate, most.get((operator, key), 0.0))
        return most

    def problem_after(self) -> Problem:
        """Return the problem with loads and traffic under the routes."""
        if not self.changes:
            return self.problem
        source, target, rate = self._traffic()
        return dataclasses.replace(
            self.problem,
            load=self._load(),
            traffic_from=source,
            traffic_to=target,
            traffic_rate=rate,
            # Some edges are new: nothing is known of their noise.
            noise=None if self.problem.noise is None else self.problem.noise.without_traffic(),
        )

    def _load(self) -> Floats:
        part = np.array([self._part(operator, key, old) for operator, key, old, _ in self.changes])
        old, new = (np.array([change[i] for change in self.changes]) for i in (2, 3))
        taken = part[:, None] * self.problem.load[old]
        shift = np.zeros_like(self.problem.load)
        np.subtract.at(shift, old, taken)
        np.add.at(shift, new, taken)
        return np.maximum(0.0, self.problem.load + shift)

    def _part(self, operator: str, key: str, row: int) -> float:
        rate = self.statistics.keys.get(operator, {}).get(key, 0.0)
        total = self.statistics.group_rate.get(self.problem.key_group_ids[row], 0.0)
        return 0.0 if total <= 0 else min(rate, total) / total

    def _traffic(self) -> tuple[Ints, Ints, Floats]:
        """Return senders, receivers and rates under the routes.

        A flow is coded as sender row x size + receiver row. Pairs that leave a flow share its rate
        if they ask for more than it has.
        """
        size = len(self.problem.key_group_ids)
        flow, has = _flows(self.problem, size)
        left, joined, wanted_rate = self._shifted(size)
        codes = np.unique(np.concatenate((flow, left, joined)))
        rates = np.zeros(len(codes))
        np.add.at(rates, np.searchsorted(codes, flow), has)
        leaving = np.zeros(len(codes))
        np.add.at(leaving, np.searchsorted(codes, left), wanted_rate)
        is_leaving = leaving > 0
        share = np.zeros(len(codes))
        share[is_leaving] = np.minimum(1.0, rates[is_leaving] / leaving[is_leaving])
        moved_rate = wanted_rate * share[np.searchsorted(codes, left)]
        np.subtract.at(rates, np.searchsorted(codes, left), moved_rate)
        np.add.at(rates, np.searchsorted(codes, joined), moved_rate)
        return codes // size, codes % size, np.maximum(0.0, rates)

    def _shifted(self, size: int) -> tuple[Ints, Ints, Floats]:
        """Return the codes of the flows that pairs leave and join, and the rates of the pairs."""
        moved = {(operator, key): (old, new) for operator, key, old, new in self.changes}
        left, joined, wanted_rate = [], [], []
        for ends, pairs in self.statistics.pairs.items():
            for pair, rate in pairs.items():
                found = [moved.get(end) for end in zip(ends, pair, strict=True)]
                if found == [None, None]:
                    continue
                rows = [
                    rows or (self.row_of(self.after, *end),) * 2
                    for rows, end in zip(found, zip(ends, pair, strict=True), strict=True)
                ]
                left.append(rows[0][0] * size + rows[1][0])
                joined.append(rows[0][1] * size + rows[1][1])
                wanted_rate.append(rate)
        return (
            np.array(left, dtype=np.int64),
            np.array(joined, dtype=np.int64),
            np.array(wanted_rate),
        )

    def violations(self, nodes: Sequence[str], rules: RouteRules) -> Iterator[Violation]:
        """Check the nodes of moved keys and the balance of routed operators.

        ``nodes`` has the node of each key group under the plan, in the problem's order.
        """
        yield from self._keys_on_leaving_nodes(nodes)
        for edge in rules.edges:
            for side, operator in enumerate(edge.ends):
                if self.before.get(operator, {}) != self.after.get(operator, {}):
                    yield from self._imbalance(nodes, rules, edge, side)

    def _keys_on_leaving_nodes(self, nodes: Sequence[str]) -> Iterator[Violation]:
        """Keys may move only to nodes that are alive."""
        state = dict(zip(self.problem.node_ids, self.problem.node_state, strict=True))
        for operator, key, old, new in self.changes:
            was = self.problem.node_ids[self.problem.current[old]]
            if state[nodes[new]] != "alive" and nodes[new] != was:
                message = f"key {key!r} of {operator!r} moves to {nodes[new]!r}, which is "
                yield Violation("routes.nodes", message + state[nodes[new]])

    def _imbalance(
        self, nodes: Sequence[str], rules: RouteRules, edge: RoutedEdge, side: int
    ) -> Iterator[Violation]:
        """The fullest node of an operator is within the limit, or no fuller than before."""
        operator = edge.ends[side]
        for decay in rules.decays:
            weights = _weights(self.statistics, edge.ends, side, decay)
            if not weights:
                continue
            total, heaviest = math.fsum(weights.values()), max(weights.values())
            allowed = max(rules.imbalance * total / len(self.problem.node_ids), heaviest)
            was, is_now = (
                self._fullest(nodes, routes, operator, weights)
                for routes in (self.before, self.after)
            )
            if is_now > max(allowed, was) * (1 + TOLERANCE):
                yield Violation(
                    BALANCE,
                    f"a node has {is_now:.6g} of the {total:.6g} records of {operator!r} with "
                    f"decay {decay:g}, allowed {allowed:.6g}, and {was:.6g} without the change",
                )

    def _fullest(
        self, nodes: Sequence[str], routes: Routes, operator: str, weights: Rates
    ) -> float:
        on: dict[str, list[float]] = {}
        for key, weight in weights.items():
            on.setdefault(nodes[self.row_of(routes, operator, key)], []).append(weight)
        return max(math.fsum(of_node) for of_node in on.values())


@dataclass(frozen=True, slots=True)
class PromisedCosts:
    """What a plan promises to cost: its moves of key groups, and its new routes of keys."""

    bytes: int
    pause_s: float
    forced_moves: int
    forced_bytes: int
    rerouted_keys: int = 0
    route_bytes: int = 0
    route_pause_s: float = 0.0


def budget_violations(
    problem: Problem, costs: PromisedCosts, budget: Budget
) -> Iterator[Violation]:
    """Check that key groups and keys together keep the budget; forced moves do not count."""
    if not costs.rerouted_keys:
        return
    n_bytes = costs.bytes + costs.route_bytes
    if budget.bytes is not None and n_bytes > budget.bytes:
        yield Violation("budget.bytes", f"{n_bytes} bytes with routes, allowed {budget.bytes}")
    forced_s = problem.pause_c0_s * costs.forced_moves
    forced_s += problem.pause_s_per_byte * costs.forced_bytes
    pause_s = costs.pause_s - forced_s + costs.route_pause_s
    if budget.pause_s is not None and pause_s > budget.pause_s * (1 + TOLERANCE) + ROUNDING_S:
        message = f"{pause_s:g} s of pause with routes, allowed {budget.pause_s:g}"
        yield Violation("budget.pause_s", message)


def _upper(counted: KeyStatistics, operator: str, key: str) -> float:
    return counted.keys[operator][key] + counted.errors.get(operator, {}).get(key, 0.0)


def _flows(problem: Problem, size: int) -> tuple[Ints, Floats]:
    source, target, rate = problem.traffic_from, problem.traffic_to, problem.traffic_rate
    if source is None or target is None or rate is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    return np.asarray(source) * size + np.asarray(target), np.asarray(rate)


def _weights(statistics: KeyStatistics, ends: tuple[str, str], side: int, decay: float) -> Rates:
    """Return the records of the keys of one end under a decay.

    A key that was counted only in pairs has the sum of its pairs.
    """
    periods = [(period.rounds_ago, period.counted) for period in statistics.earlier]
    known = [(ago, c) for ago, c in (*periods, (0.0, statistics)) if c.pairs.get(ends)]
    if not known:
        return {}
    newest = known[-1][0]
    used = known if decay > 0 else known[-1:]
    decayed = [(1.0 if ago == newest else decay ** (ago - newest), c) for ago, c in used]
    by_key = _summed((w, counted.keys.get(ends[side], {}).items()) for w, counted in decayed)
    by_pair = _summed(
        (w, ((pair[side], rate) for pair, rate in counted.pairs[ends].items()))
        for w, counted in decayed
    )
    return {**by_pair, **by_key}


def _summed(parts: Iterable[tuple[float, Iterable[tuple[str, float]]]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for weight, rates in parts:
        for key, rate in rates:
            sums[key] = sums.get(key, 0.0) + weight * rate
    return sums
