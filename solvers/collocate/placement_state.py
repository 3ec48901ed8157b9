"""A placement that a search changes: node loads, saved traffic and used budget after each move.

The work of a move grows with the number of the key group's partners. Their loads change too,
because a record that stays on its node is not serialised (solvers/model/predicted_load.py).
"""

from __future__ import annotations

import heapq

import numpy as np

from solvers.collocate.load_extremes import LoadExtremes
from solvers.collocate.placement_tables import PlacementTables
from solvers.model.budget import Budget
from solvers.model.problem import IntArray, Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph

TINY = 1e-9
"""Slack on load limits, in units of the mean, for sums that additions and subtractions built."""

ROUNDING = 1e-9
"""Relative rest of a rate that was added and subtracted again."""

Shift = tuple[float, float, float]
"""Change of load on the old node, on the new node and in total, for one resource."""


class PlacementState(PlacementTables):
    """Key groups on nodes, starting from ``assignment``. The budget counts moves from home."""

    def __init__(
        self,
        problem: Problem,
        graph: TrafficGraph,
        costs: TrafficCosts,
        budget: Budget,
        assignment: IntArray,
    ) -> None:
        super().__init__(problem, graph, costs, budget)
        self.node_of: list[int] = problem.current.tolist()
        self.members: list[set[int]] = [set() for _ in range(problem.n_nodes)]
        for k, node in enumerate(self.node_of):
            self.members[node].add(k)
        self.load = [list(column) for column in problem.load.T.tolist()]  # [R][G]
        self.sums = [
            np.bincount(
                problem.current, weights=problem.load[:, r], minlength=problem.n_nodes
            ).tolist()
            for r in range(problem.n_resources)
        ]
        self.total = [float(sum(column)) for column in self.sums]
        self.ratio = [
            [s / c for s, c in zip(column, self.capacity[r], strict=True)]
            for r, column in enumerate(self.sums)
        ]
        staying = np.flatnonzero(problem.staying).tolist()
        self.extremes = [LoadExtremes(column, staying) for column in self.ratio]
        self.over_cap: set[tuple[int, int]] = set()  # (resource, node)
        for i in staying:
            self._note_caps(i)
        self.used = [0, 0, 0.0]  # moves, bytes, seconds of pause, without forced ones
        self._connect()
        for k in np.flatnonzero(assignment != problem.current).tolist():
            self.move(k, int(assignment[k]))

    def _connect(self) -> None:
        """Sum the rate between each key group and each node and rack with partners of it."""
        self.to_node: list[dict[int, float]] = []
        self.to_rack: list[dict[int, float]] = []
        doubled = 0.0
        for k, partners in enumerate(self.partners):
            nodes: dict[int, float] = {}
            racks: dict[int, float] = {}
            rates = zip(partners, self.rates_out[k], self.rates_in[k], strict=True)
            for j, out, into in rates:
                node = self.node_of[j]
                nodes[node] = nodes.get(node, 0.0) + out + into
                if self.has_racks:
                    rack = self.rack_of[node]
                    racks[rack] = racks.get(rack, 0.0) + out + into
            self.to_node.append(nodes)
            self.to_rack.append(racks)
            doubled += self._value(k, self.node_of[k])
        self.saved = doubled / 2.0

    def _value(self, k: int, node: int) -> float:
        """Return the price saved with ``k`` on ``node`` instead of in another rack."""
        here = self.to_node[k].get(node, 0.0)
        if not self.has_racks:
            return self.node_price * here
        in_rack = self.to_rack[k].get(self.rack_of[node], 0.0)
        return self.node_price * here + self.costs.saved_by_rack * (in_rack - here)

    def gain(self, k: int, node: int) -> float:
        """Return the priced records per unit of time that moving ``k`` to ``node`` saves."""
        return self._value(k, node) - self._value(k, self.node_of[k])

    def is_affordable(self, k: int, node: int) -> bool:
        """Check the budget. Leaving home costs, returning refunds, any other move is free."""
        is_new = self.node_of[k] == self.home[k] != node
        if not is_new or self.is_forced[k]:
            return True
        budget, (moves, n_bytes, pause) = self.budget, self.used
        return (
            (budget.moves is None or moves < budget.moves)
            and (budget.bytes is None or n_bytes + self.bytes_of[k] <= budget.bytes)
            and (
                budget.pause_s is None
                or pause + self.pause_of[k] <= budget.pause_s + budget.pause_slack_s
            )
        )

    def shifts(self, k: int, node: int) -> list[Shift]:
        """Return the change of load for each resource if ``k`` moved to ``node``."""
        old = self.node_of[k]
        result: list[Shift] = []
        for r, loads in enumerate(self.load):
            old_change, new_change, own = -loads[k], loads[k], 0.0
            if self.has_serialisation:
                parted, joined, own = self._partner_changes(k, old, node, r)
                old_change += parted
                new_change += joined + own
            result.append((old_change, new_change, old_change + new_change))
        return result

    def _partner_changes(self, k: int, old: int, new: int, r: int) -> tuple[float, float, float]:
        """Return the changes of load of partners on the old node, on the new node, and of ``k``."""
        send, receive = self.send[r], self.receive[r]
        parted = joined = own = 0.0
        rates = zip(self.partners[k], self.rates_out[k], self.rates_in[k], strict=True)
        for j, out, into in rates:
            node = self.node_of[j]
            if node == old:
                parted += out * receive[j] + into * send[j]
                own += out * send[k] + into * receive[k]
            elif node == new:
                joined -= out * receive[j] + into * send[j]
                own -= out * send[k] + into * receive[k]
        return parted, joined, own

    def distance_after(self, k: int, node: int) -> float:
        """Return the load distance, as a share of the mean, if ``k`` moved to ``node``."""
        old = self.node_of[k]
        if old == node:
            return self.distance()
        worst = 0.0
        shifts = self.shifts(k, node)
        for r in self.balanced:
            old_change, new_change, whole = shifts[r]
            mean = (self.total[r] + whole) / self.room[r]
            if mean <= 0:
                continue
            away = self._others(r, mean, (old, node))
            for i, change in ((old, old_change), (node, new_change)):
                if self.is_staying[i]:
                    load = (self.sums[r][i] + change) / self.capacity[r][i]
                    away = max(away, abs(load / mean - 1.0))
            worst = max(worst, self.weight[r] * away)
        return worst

    def _others(self, r: int, mean: float, but: tuple[int, ...] = ()) -> float:
        """Return the largest distance from the mean of all staying nodes except ``but``."""
        high, low = self.extremes[r].largest(but), self.extremes[r].smallest(but)
        if high is None or low is None:
            return 0.0
        return max(high / mean - 1.0, 1.0 - low / mean)

    def distance(self) -> float:
        """Return the load distance as a share of the mean."""
        means = [total / room for total, room in zip(self.total, self.room, strict=True)]
        return max(
            (self.weight[r] * self._others(r, means[r]) for r in self.balanced if means[r] > 0),
            default=0.0,
        )

    def fits(self, k: int, node: int, limit: float) -> bool:
        """Check that the load distance and the caps allow moving ``k`` to ``node``."""
        return self.distance_after(k, node) <= limit + TINY and self.keeps_caps(k, node)

    def keeps_caps(self, k: int, node: int) -> bool:
        """Check that no node is over a cap if ``k`` moves to ``node``."""
        if not self.capped:
            return True
        old = self.node_of[k]
        if any(i not in (old, node) for _, i in self.over_cap):
            return False
        shifts = self.shifts(k, node)
        return not any(
            self.sums[r][i] + change > self.cap[r][i]
            for r in self.capped
            for i, change in ((old, shifts[r][0]), (node, shifts[r][1]))
        )

    def _note_caps(self, i: int) -> None:
        for r in self.capped:
            if self.sums[r][i] > self.cap[r][i]:
                self.over_cap.add((r, i))
            else:
                self.over_cap.discard((r, i))

    def move(self, k: int, node: int) -> None:
        """Move ``k`` to ``node`` and update every figure."""
        old = self.node_of[k]
        if old == node:
            return
        self.saved += self.gain(k, node)
        for r, (old_change, new_change, whole) in enumerate(self.shifts(k, node)):
            self.total[r] += whole
            for i, change in ((old, old_change), (node, new_change)):
                self.sums[r][i] += change
                self.ratio[r][i] = self.sums[r][i] / self.capacity[r][i]
                if self.is_staying[i]:
                    self.extremes[r].changed(i)
        self._note_caps(old)
        self._note_caps(node)
        if self.has_serialisation:
            self._update_loads(k, old, node)
        self.node_of[k] = node
        self.members[old].discard(k)
        self.members[node].add(k)
        self._update_connections(k, old, node)
        self._update_used(k, old, node)

    def _update_loads(self, k: int, old: int, new: int) -> None:
        for r, loads in enumerate(self.load):
            send, receive = self.send[r], self.receive[r]
            rates = zip(self.partners[k], self.rates_out[k], self.rates_in[k], strict=True)
            for j, out, into in rates:
                sign = {old: 1.0, new: -1.0}.get(self.node_of[j], 0.0)
                loads[j] += sign * (out * receive[j] + into * send[j])
                loads[k] += sign * (out * send[k] + into * receive[k])

    def _update_connections(self, k: int, old: int, new: int) -> None:
        rates = zip(self.partners[k], self.rates_out[k], self.rates_in[k], strict=True)
        for j, out, into in rates:
            _shift(self.to_node[j], old, new, out + into)
            if self.has_racks:
                _shift(self.to_rack[j], self.rack_of[old], self.rack_of[new], out + into)

    def _update_used(self, k: int, old: int, new: int) -> None:
        if self.is_forced[k]:
            return
        sign = (old == self.home[k]) - (new == self.home[k])
        self.used[0] += sign
        self.used[1] += sign * self.bytes_of[k]
        self.used[2] += sign * self.pause_of[k]

    def emptiest_nodes(self, count: int, r: int | None = None) -> list[int]:
        """Return the emptiest staying nodes by resource ``r``, or by the first balanced one."""
        ratio = self.ratio[self.balanced[0] if r is None else r]
        staying = [i for i, stays in enumerate(self.is_staying) if stays]
        return heapq.nsmallest(count, staying, key=lambda i: ratio[i])

    def assignment(self) -> IntArray:
        """Return [key groups]: the node of each key group."""
        return np.array(self.node_of, dtype=np.int64)


def _shift(rates: dict[int, float], old: int, new: int, rate: float) -> None:
    if old == new:
        return
    left = rates.get(old, 0.0) - rate
    if left > ROUNDING * rate:
        rates[old] = left
    else:
        rates.pop(old, None)
    rates[new] = rates.get(new, 0.0) + rate
