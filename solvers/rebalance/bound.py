"""A proven lower bound on load distance under the budget, fast at every problem size.

A load distance d is impossible if the fewest necessary departures and arrivals exceed the budget:

1. departures of an overloaded node: at least the number that is enough if its largest key groups
   leave; arrivals at an underloaded node: the same with the largest key groups of all nodes;
2. events: a move is one departure and one arrival, so twice the moves must cover the fewest events
   that bring every node into the band, where one and two events are tested exactly;
3. volume: the moves, those departures first and then the largest key groups of all, must move as
   much load as the underloaded nodes lack;
4. bytes and pause: the same with key groups that may be cut into parts, cheapest load first.

With several resources a node's departures (and its arrivals) are the maximum over the resources,
and departures and arrivals of one node add up. In addition, one key group alone may overload
the largest node, and whole-numbered loads cannot meet a fraction. Bisection finds the largest
impossible d. Every simplification drops a rule or rounds in favour of "possible", so the bound can
only be too low.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.pause import move_pause_s
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.rebalance.kernels.bound_arrays import EventCounts, PriceList, ResourceColumn
from solvers.rebalance.start import movable_mask, must_move_mask

BISECTIONS = 45
EXACT_WHOLE = 2.0**50
"""Whole numbers up to this, and sums of them, are exact as floats."""


_known: WeakKeyDictionary[Problem, dict[Budget, float]] = WeakKeyDictionary()


def counting_bound(problem: Problem, budget: Budget) -> float:
    """Return a lower bound on load distance in percent of the mean, for the worst resource.

    The value is cached with the problem, because ``auto`` runs several methods on it.
    """
    known = _known.setdefault(problem, {})
    if budget not in known:
        known[budget] = _counting_bound(problem, budget)
    return known[budget]


def overload_bound(problem: Problem, budget: Budget, r: int) -> float:
    """Return by which part of the mean the fullest node is above it in every plan; 0 if unknown.

    Nodes with little load are not counted, so it also holds where their load rises by itself.

    Args:
        problem: The problem.
        budget: Limits on the moves that are not forced.
        r: The resource.
    """
    mean = metrics.mean_load(problem)
    if not mean[r] > 0:
        return 0.0
    alone = _indivisible(problem, r, float(mean[r]))
    counting = _Counting(problem, budget, [r], mean, is_two_sided=False)
    weight = float(problem.weights[r])
    return counting.largest_impossible(alone * weight) / weight


def _counting_bound(problem: Problem, budget: Budget) -> float:
    mean = metrics.mean_load(problem)
    counted = [r for r in np.flatnonzero(problem.balanced_mask).tolist() if mean[r] > 0]
    if not counted:
        return 0.0
    alone = max(
        float(problem.weights[r])
        * max(_indivisible(problem, r, float(mean[r])), _whole(problem, r, float(mean[r])))
        for r in counted
    )
    return 100.0 * max(alone, _Counting(problem, budget, counted, mean).largest_impossible(alone))


def _indivisible(problem: Problem, r: int, mean: float) -> float:
    """Return the bound from the largest key group that must be on a staying node."""
    has_to_stay = ~problem.draining[problem.current] | must_move_mask(problem)
    largest = float(problem.load[has_to_stay, r].max(initial=0.0))
    room = float(problem.capacity[problem.staying, r].max())
    return max(0.0, largest / (room * mean) - 1.0)


def _whole(problem: Problem, r: int, mean: float) -> float:
    """Return the bound from whole-numbered loads; 0 if they are fractions.

    The load of a node is a multiple of the greatest common divisor of all loads.
    """
    load = problem.load[:, r]
    if not (float(load.sum()) < EXACT_WHOLE and bool(np.all(load == np.floor(load)))):
        return 0.0
    share = problem.capacity[problem.staying, r] * mean
    unit = max(1, int(np.gcd.reduce(load.astype(np.int64))))
    slack = 8 * np.finfo(np.float64).eps * share
    away = np.maximum(0.0, np.abs(share - unit * np.round(share / unit)) - slack)
    return float((away / share).max(initial=0.0))


def most_moves(problem: Problem, budget: Budget) -> int:
    """Return the largest number of voluntary moves of any plan within the budget."""
    can_move = movable_mask(problem, budget) & ~metrics.forced_mask(problem)
    most = int(can_move.sum())
    if budget.moves is not None:
        most = min(most, budget.moves)
    if budget.bytes is not None:
        spent: FloatArray = np.cumsum(np.sort(problem.state_bytes[can_move]), dtype=np.float64)
        most = min(most, int(np.searchsorted(spent, budget.bytes * (1 + 1e-12), "right")))
    if budget.pause_s is not None:
        pauses = np.cumsum(np.sort(move_pause_s(problem)[can_move]))
        most = min(most, int(np.searchsorted(pauses, budget.pause_s * (1 + 1e-9) + 1e-9, "right")))
    return most


@dataclass(frozen=True, eq=False, slots=True)
class _Resource:
    """One resource of the problem."""

    weight: float
    slack: float
    """Rounding error of a sum of all loads."""
    fair: FloatArray  # [S]: the fair share of each staying node
    free_volume: float
    """Load of forced moves, which cost no budget."""
    column: ResourceColumn
    is_two_sided: bool
    """Whether a node may also have too little load."""

    def band(self, distance: float) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and highest load of each node, rounded in favour of "possible"."""
        width = distance / self.weight
        lowest = self.fair * (1 - width) - self.slack
        if not self.is_two_sided:
            lowest = np.full_like(self.fair, -1.0)
        return lowest, self.fair * (1 + width) + self.slack

    def lacking(self, lowest: FloatArray) -> float:
        """Return the load that nodes need to reach the lower end of the band.

        The load of forced moves is subtracted.
        """
        lack = np.maximum(0.0, lowest - self.column.sums).sum()
        return float(lack - self.free_volume - self.slack)


@dataclass(frozen=True, eq=False, slots=True)
class _LimitedUnit:
    """One unit of the budget for one resource."""

    resource: _Resource
    limit: float
    prices: PriceList


class _Counting:
    """The sorted loads, arranged so that a test of one d is a single pass."""

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        counted: list[int],
        mean: FloatArray,
        *,
        is_two_sided: bool = True,
    ) -> None:
        self.moves = most_moves(problem, budget)
        forced = metrics.forced_mask(problem)
        self.forced = int(forced.sum())
        voluntary = movable_mask(problem, budget) & ~forced
        self.resources = [
            replace(
                _resource(problem, r, float(mean[r]), voluntary, forced), is_two_sided=is_two_sided
            )
            for r in counted
        ]
        self.units = [
            _LimitedUnit(resource, limit, _prices(problem, r, voluntary, price))
            for resource, r in zip(self.resources, counted, strict=True)
            for price, limit in _limited_units(problem, budget)
        ]

    def largest_impossible(self, known: float) -> float:
        """Return the largest d proven impossible, at least ``known``, in units of the mean."""
        low = known
        if not self.is_impossible(low):
            return low
        worst = [
            np.abs(one.column.sums / one.fair - 1.0).max(initial=0.0) * one.weight
            for one in self.resources
        ]
        high = max(float(max(worst)), low) + 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if self.is_impossible(middle):
                low = middle
            else:
                high = middle
        return low

    def is_impossible(self, distance: float) -> bool:
        """Return whether the fewest necessary moves for this distance exceed the budget."""
        from solvers.rebalance.kernels.distance_bound import count_events

        n_nodes = len(self.resources[0].column.sums)
        counts = EventCounts(*np.zeros((3, n_nodes), dtype=np.int64))
        for resource in self.resources:
            lowest, highest = resource.band(distance)
            count_events(resource.column, lowest, highest, counts)
        departures, arrivals = counts.departures, counts.arrivals
        if departures.sum() > self.moves or arrivals.sum() > self.moves + self.forced:
            return True
        if np.maximum(counts.events, departures + arrivals).sum() > 2 * self.moves + self.forced:
            return True
        return self._lacks_volume(distance, departures) or self._costs_too_much(distance)

    def _lacks_volume(self, distance: float, departures: IntArray) -> bool:
        from solvers.rebalance.kernels.distance_bound import largest_volume

        for resource in self.resources:
            lowest, _ = resource.band(distance)
            lacking = resource.lacking(lowest)
            if lacking > 0 and lacking > largest_volume(self.moves, departures, resource.column):
                return True
        return False

    def _costs_too_much(self, distance: float) -> bool:
        from solvers.rebalance.kernels.distance_bound import least_cost

        for unit in self.units:
            lowest, highest = unit.resource.band(distance)
            surplus = np.maximum(0.0, unit.resource.column.sums - highest)
            cost = least_cost(surplus, unit.resource.lacking(lowest), unit.prices)
            if cost * (1 - 1e-9) > unit.limit:
                return True
        return False


def _resource(
    problem: Problem, r: int, mean: float, voluntary: BoolArray, forced: BoolArray
) -> _Resource:
    load = problem.load[:, r]
    return _Resource(
        weight=float(problem.weights[r]),
        slack=float(2 * np.finfo(np.float64).eps * max(1, len(load)) * load.sum()),
        fair=problem.capacity[problem.staying, r] * mean,
        free_volume=float(load[forced].sum()),
        column=_column(problem, load, voluntary, forced),
        is_two_sided=True,
    )


def _column(
    problem: Problem, load: FloatArray, voluntary: BoolArray, forced: BoolArray
) -> ResourceColumn:
    staying = np.flatnonzero(problem.staying)
    place = np.full(problem.n_nodes, -1, dtype=np.int64)
    place[staying] = np.arange(len(staying))
    sums = np.bincount(problem.current, weights=load, minlength=problem.n_nodes)[staying]
    leaving = np.flatnonzero(voluntary & problem.staying[problem.current])
    leaving = leaving[np.lexsort((-load[leaving], place[problem.current[leaving]]))]
    ends = np.cumsum(np.bincount(place[problem.current[leaving]], minlength=len(staying)))
    begins = np.concatenate(([0], ends[:-1])).astype(np.int64)
    rank = np.zeros(problem.n_key_groups, dtype=np.int64)
    rank[leaving] = np.arange(len(leaving)) - begins[place[problem.current[leaving]]]
    coming = np.flatnonzero(voluntary | forced)
    coming = coming[np.argsort(load[coming], kind="stable")]
    return ResourceColumn(
        sums=np.asarray(sums, dtype=np.float64),
        loads=load[leaving],
        prefix=np.concatenate(([0.0], np.cumsum(load[leaving]))),
        begin=begins,
        end=ends.astype(np.int64),
        pool=load[coming],
        pool_home=place[problem.current[coming]],
        pool_rank=rank[coming],
        pool_prefix=np.concatenate(([0.0], np.cumsum(load[coming][::-1]))),
    )


def _limited_units(problem: Problem, budget: Budget) -> list[tuple[FloatArray, float]]:
    units: list[tuple[FloatArray, float]] = []
    if budget.bytes is not None:
        units.append((problem.state_bytes.astype(np.float64), float(budget.bytes)))
    if budget.pause_s is not None:
        units.append((move_pause_s(problem), budget.pause_s + budget.pause_slack_s))
    return units


def _prices(problem: Problem, r: int, voluntary: BoolArray, price: FloatArray) -> PriceList:
    groups = np.flatnonzero(voluntary & (problem.load[:, r] > 0))
    load = problem.load[groups, r]
    order = np.argsort(price[groups] / load, kind="stable")
    groups, load = groups[order], load[order]
    place = np.full(problem.n_nodes, -1, dtype=np.int64)
    place[problem.staying] = np.arange(int(problem.staying.sum()))
    home = place[problem.current[groups]]
    by_node = np.argsort(home, kind="stable")
    running = np.cumsum(load[by_node]) - load[by_node]
    starts = np.flatnonzero(np.diff(home[by_node], prepend=-2))
    lengths = np.diff(np.append(starts, len(by_node)))
    before = np.empty(len(groups))
    before[by_node] = running - np.repeat(running[starts], lengths)
    return PriceList(load, price[groups], home, before)
