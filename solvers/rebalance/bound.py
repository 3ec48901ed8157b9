"""A cheap proven lower bound on load distance under the budget, by counting moves.

A load distance d is impossible when (1) some overloaded node cannot shed enough even by giving
away all it may; (2) the fewest departures, largest key groups first, from all overloaded nodes are
more than the moves allowed; (3) the fewest arrivals that underloaded nodes need are more; (4) one
key group alone overloads the largest node. Bisection finds the largest impossible d. Every
simplification here drops a rule, so the bound can only be too low.
"""

from __future__ import annotations

import numpy as np

from solvers import metrics
from solvers.budget import Budget
from solvers.problem import FloatArray, IntArray, Problem
from solvers.rebalance.start import movable_mask, must_move_mask

BISECTIONS = 50


def counting_bound(problem: Problem, budget: Budget) -> float:
    """Lower bound on load distance in percent of the mean, for the worst resource."""
    mean = metrics.mean_load(problem)
    bounds = [
        max(_indivisible(problem, r, float(mean[r])), _counted(problem, budget, r, float(mean[r])))
        for r in range(problem.n_resources)
        if mean[r] > 0
    ]
    return 100.0 * max(bounds, default=0.0)


def _indivisible(problem: Problem, r: int, mean: float) -> float:
    """Condition (4). A key group left on a draining node loads no node that stays."""
    has_to_stay = ~problem.draining[problem.current] | must_move_mask(problem)
    largest = float(problem.load[has_to_stay, r].max(initial=0.0))
    room = float(problem.capacity[problem.staying, r].max())
    return max(0.0, largest / (room * mean) - 1.0)


def _counted(problem: Problem, budget: Budget, r: int, mean: float) -> float:
    """Conditions (1) to (3), by bisection on d in units of the mean."""
    counting = _Counting(problem, budget, r, mean)
    low, high = 0.0, counting.start_distance
    if not counting.is_impossible(low):
        return 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if counting.is_impossible(middle):
            low = middle
        else:
            high = middle
    return low


def most_moves(problem: Problem, budget: Budget) -> int:
    """The most voluntary moves that any plan within the budget can make."""
    can_move = movable_mask(problem, budget) & ~metrics.forced_mask(problem)
    most = int(can_move.sum())
    if budget.moves is not None:
        most = min(most, budget.moves)
    if budget.bytes is not None:
        spent: FloatArray = np.cumsum(np.sort(problem.state_bytes[can_move]), dtype=np.float64)
        most = min(most, int(np.searchsorted(spent, budget.bytes * (1 + 1e-12), "right")))
    if budget.pause_s is not None:
        pauses = np.cumsum(np.sort(metrics.move_pause_s(problem)[can_move]))
        most = min(most, int(np.searchsorted(pauses, budget.pause_s * (1 + 1e-9) + 1e-9, "right")))
    return most


class _Counting:
    """The sorted loads of one resource, laid out so that one try of d costs O(nodes log groups)."""

    def __init__(self, problem: Problem, budget: Budget, r: int, mean: float) -> None:
        load = problem.load[:, r]
        staying = np.flatnonzero(problem.staying)
        movable = movable_mask(problem, budget)
        forced = metrics.forced_mask(problem)
        by_node = np.bincount(problem.current, weights=load, minlength=problem.n_nodes)
        self.sums: FloatArray = np.asarray(by_node[staying], dtype=np.float64)
        self.fair: FloatArray = problem.capacity[staying, r] * mean
        self.moves = most_moves(problem, budget)
        self.arrivals = self.moves + int(forced.sum())
        self.largest = float(load[movable].max(initial=0.0))
        # Rounding of the running sums is taken in favour of "possible".
        self.slack = np.finfo(np.float64).eps * max(1, len(load)) * float(load.sum())
        self._lay_out(problem, load, np.flatnonzero(movable & ~forced), staying)
        surplus = np.abs(self.sums / self.fair - 1.0)
        self.start_distance = float(surplus.max(initial=0.0))

    def _lay_out(
        self, problem: Problem, load: FloatArray, leaving: IntArray, staying: IntArray
    ) -> None:
        """Key groups that may leave, by node and largest first, with running sums."""
        node = problem.current[leaving]
        order = np.lexsort((-load[leaving], node))
        running = np.concatenate(([0.0], np.cumsum(load[leaving][order])))
        ends = np.cumsum(np.bincount(node, minlength=problem.n_nodes))
        begins = np.concatenate(([0], ends[:-1]))
        self.running: FloatArray = running
        self.begins: IntArray = begins[staying]
        self.ends: IntArray = ends[staying]

    def is_impossible(self, distance: float) -> bool:
        return self._departures(distance) > self.moves or self._arrivals(distance) > self.arrivals

    def _departures(self, distance: float) -> float:
        surplus = self.sums - self.fair * (1.0 + distance) - self.slack
        over = surplus > 0
        reach = self.running[self.begins[over]] + surplus[over] - self.slack
        last = np.searchsorted(self.running, reach, "left")
        if bool(np.any(last > self.ends[over])):
            return np.inf
        return float(np.maximum(0, last - self.begins[over]).sum())

    def _arrivals(self, distance: float) -> float:
        deficit = self.fair * (1.0 - distance) - self.sums - self.slack
        lacking = deficit[deficit > 0]
        if not len(lacking):
            return 0.0
        if self.largest <= 0:
            return np.inf
        return float(np.ceil(lacking / self.largest * (1 - 1e-12)).sum())
