"""Flux, the baseline of [ICDE17, 2.2]: pair the fullest node with the emptiest.

Each round sorts the nodes by load in descending order and moves the biggest suitable key group
from the first to the last, from the second to the second last, and so on, so that the variance of
the loads falls; rounds repeat while they help and the budget lasts. Like [ICDE17, 3] it
looks at the bottleneck resource alone, the balanced one with the greatest weighted use; a move that
would break a cap is not made.

Where the print leaves room: "suitable" is the biggest key group that brings donor and receiver
closest without overshooting, else the smallest that still lowers the variance; with capacities
the variance is that of load / capacity. A draining node is a donor whose target is no load at
all, so that a drain and an overload compete by urgency. The best round is kept, never a worse one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ballast.contracts.errors import InvalidInput
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.parameter_checks import is_whole
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, TraceStep, infeasible_result, make_result
from solvers.model.stop import SolverClock, Stop
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.caps import keep_caps
from solvers.rebalance.compare import TIE, without_useless_moves
from solvers.rebalance.start import movable_mask, place_must_moves, why_infeasible

NAME = "flux"
NONE = -1


@dataclass(frozen=True, slots=True)
class FluxParams:
    """Parameters of Flux."""

    patience: int = 8
    """Rounds without a better load distance before it stops."""

    def __post_init__(self) -> None:
        if not is_whole(self.patience, at_least=1):
            raise InvalidInput(f"flux.patience is {self.patience!r}", allowed="a whole number >= 1")


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: FluxParams,
) -> Result:
    """Balance with Flux. Nothing in it is random, so the seed has no effect."""
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    search = _FluxRounds(problem, budget)
    trace = _run_rounds(search, stop, clock, params)
    search.back_to_best()
    _drain_with_what_is_left(search, clock)
    found = search.assignment
    return make_result(
        problem,
        keep_caps(problem, found, without_useless_moves(problem, found)),
        SolverRun(
            method=NAME,
            bound=counting_bound(problem, budget),
            seconds=clock.elapsed(),
            trace=tuple(trace),
        ),
    )


class _Purse:
    """What is left of the budget. A key group sent home again gives its cost back."""

    def __init__(self, problem: Problem, budget: Budget) -> None:
        self._home = problem.current
        self._is_free = metrics.forced_mask(problem)
        self._costs = [
            (cost, slack)
            for limit, cost, slack in (
                (budget.moves, np.ones(problem.n_key_groups), 0.0),
                (budget.bytes, problem.state_bytes.astype(np.float64), 0.0),
                (budget.pause_s, metrics.move_pause_s(problem), budget.pause_slack_s),
            )
            if limit is not None
        ]
        limits = [x for x in (budget.moves, budget.bytes, budget.pause_s) if x is not None]
        self._left = np.array(limits, dtype=np.float64)

    def charge_of(self, groups: IntArray, sources: IntArray, targets: IntArray) -> IntArray:
        """+1: a new move, 0: a key group that was moved already, or is forced; -1: goes home."""
        home = self._home[groups]
        charge = (targets != home).astype(np.int64) - (sources != home)
        charge[self._is_free[groups]] = 0
        return np.asarray(charge, dtype=np.int64)

    def affords(self, groups: IntArray, sources: IntArray, targets: IntArray) -> BoolArray:
        """For each move on its own: is there enough left for it?"""
        charge = self.charge_of(groups, sources, targets)
        fits = np.ones(len(groups), dtype=bool)
        for (cost, slack), left in zip(self._costs, self._left, strict=True):
            fits &= (charge <= 0) | (cost[groups] <= left + slack)
        return fits

    def pay(self, group: int, charge: int) -> bool:
        """Pay for one move if there is enough left."""
        price = np.array([cost[group] for cost, _ in self._costs]) * charge
        slack = np.array([slack for _, slack in self._costs])
        if charge > 0 and bool(np.any(price > self._left + slack)):
            return False
        self._left -= price
        return True


class _Caps:
    """What the nodes carry of the resources that are caps; no move may go over them."""

    def __init__(self, problem: Problem, assignment: IntArray) -> None:
        capped = ~problem.balanced_mask
        self.is_empty = not bool(capped.any())
        self._load: FloatArray = problem.load[:, capped]
        self._limit: FloatArray = problem.cap_limit[:, capped] * (1 + metrics.CAP_TOLERANCE)
        sums = metrics.node_loads(problem, assignment) * problem.capacity
        self._sums: FloatArray = sums[:, capped]

    def fits(self, groups: IntArray, targets: IntArray) -> BoolArray:
        """For each move on its own: does the target stay under its caps?"""
        if self.is_empty:
            return np.ones(len(groups), dtype=bool)
        after = self._sums[targets] + self._load[groups]
        return np.asarray((after <= self._limit[targets]).all(axis=1))

    def move(self, group: int, source: int, target: int) -> None:
        if not self.is_empty:
            self._sums[source] -= self._load[group]
            self._sums[target] += self._load[group]


class _FluxRounds:
    """The state of one Flux run."""

    def __init__(self, problem: Problem, budget: Budget) -> None:
        self.problem = problem
        self.budget = budget
        use = metrics.mean_load(problem) * problem.weights
        self.bottleneck = int(np.argmax(np.where(problem.balanced_mask, use, -1.0)))
        self.load: FloatArray = problem.load[:, self.bottleneck]
        self.capacity: FloatArray = problem.capacity[:, self.bottleneck]
        self.mean = float(metrics.mean_load(problem)[self.bottleneck])
        self.assignment = place_must_moves(problem, budget)
        self.caps = _Caps(problem, self.assignment)
        self.purse = self._purse_after(budget)
        movable = np.flatnonzero(movable_mask(problem, budget))
        self.by_load = movable[np.argsort(self.load[movable], kind="stable")]
        self.best = self.assignment.copy()
        self.best_distance = metrics.load_distance(problem, self.best)

    def _purse_after(self, budget: Budget) -> _Purse:
        """What the assignment leaves of the budget."""
        purse = _Purse(self.problem, budget)
        moved = np.flatnonzero(self.assignment != self.problem.current)
        charges = purse.charge_of(moved, self.problem.current[moved], self.assignment[moved])
        for k, charge in zip(moved, charges, strict=True):
            purse.pay(int(k), int(charge))
        return purse

    def surplus(self) -> FloatArray:
        """[N]: load above target; the target is the mean, or nothing on a draining node."""
        sums = np.bincount(self.assignment, weights=self.load, minlength=self.problem.n_nodes)
        return sums / self.capacity - np.where(self.problem.staying, self.mean, 0.0)

    def back_to_best(self) -> None:
        """Later rounds may have sent key groups home: caps and budget are the best plan's again."""
        self.assignment = self.best
        self.purse = self._purse_after(self.budget)
        self.caps = _Caps(self.problem, self.best)

    def move(self, group: int, target: int) -> None:
        self.caps.move(group, int(self.assignment[group]), target)
        self.assignment[group] = target

    def note(self) -> bool:
        """Remember the assignment if it is the best so far."""
        distance = metrics.load_distance(self.problem, self.assignment)
        if distance >= self.best_distance - TIE:
            return False
        self.best, self.best_distance = self.assignment.copy(), distance
        return True


def _run_rounds(
    search: _FluxRounds, stop: Stop, clock: SolverClock, options: FluxParams
) -> list[TraceStep]:
    trace: list[TraceStep] = [(clock.elapsed(), "start", search.best_distance)]
    rounds = idle = 0
    while idle < options.patience and not clock.is_over():
        if stop.steps is not None and rounds >= stop.steps:
            break
        rounds += 1
        if not _one_round(search):
            break
        if search.note():
            idle = 0
            trace.append((clock.elapsed(), f"round {rounds}", search.best_distance))
        else:
            idle += 1
    return trace


def _one_round(search: _FluxRounds) -> bool:
    """First to last, second to second last, ...; False when nothing could be moved."""
    donors, receivers, limit = _pairs(search)
    groups = _biggest_suitable(search, donors, receivers, limit)
    found = groups != NONE
    groups, donors, receivers = groups[found], donors[found], receivers[found]
    charges = search.purse.charge_of(groups, donors, receivers)
    any_moved = False
    for k, target, charge in zip(groups, receivers, charges, strict=True):
        if search.purse.pay(int(k), int(charge)):
            search.move(int(k), int(target))
            any_moved = True
    return any_moved


def _pairs(search: _FluxRounds) -> tuple[IntArray, IntArray, FloatArray]:
    """Donors, receivers, and the load below which a move lowers the variance."""
    surplus = search.surplus()
    staying = search.problem.staying
    takes_part = staying | (search.problem.draining & (surplus > 0))
    order = np.flatnonzero(takes_part)
    order = order[np.argsort(-surplus[order], kind="stable")]
    place = np.arange(len(order))
    receiver_place = place[staying[order]][::-1]
    donor_place = place[: len(receiver_place)]
    # No node both gives and takes in one round: its load would change under the other's feet.
    apart = donor_place < receiver_place
    donors, receivers = order[donor_place[apart]], order[receiver_place[apart]]
    per_donor, per_receiver = 1 / search.capacity[donors], 1 / search.capacity[receivers]
    slope = surplus[donors] * per_donor - surplus[receivers] * per_receiver
    limit = 2 * slope / (per_donor**2 + per_receiver**2)
    worth_it = limit > 0
    return donors[worth_it], receivers[worth_it], limit[worth_it]


def _biggest_suitable(
    search: _FluxRounds, donors: IntArray, receivers: IntArray, limit: FloatArray
) -> IntArray:
    """For each pair, the key group to move, or NONE."""
    node_of = search.assignment[search.by_load]
    by_node = search.by_load[np.argsort(_small(node_of, search.problem.n_nodes), kind="stable")]
    ends = np.cumsum(np.bincount(node_of, minlength=search.problem.n_nodes))
    begins = np.concatenate(([0], ends[:-1]))
    loads = search.load[by_node]
    # At half the limit donor and receiver are as close as they can get.
    middle = _first_above(loads, begins[donors], ends[donors], limit / 2)
    chosen = np.full(len(donors), NONE, dtype=np.int64)
    pairs = _Pairs(by_node, receivers, limit)
    _walk(search, pairs, middle - 1, -1, begins[donors], chosen)
    _walk(search, pairs, middle, +1, ends[donors], chosen)
    return chosen


@dataclass(frozen=True, eq=False, slots=True)
class _Pairs:
    """Pairs of a donor and a receiver in one round."""

    by_node: IntArray
    """All key groups, sorted by node and then by load."""
    receivers: IntArray
    limit: FloatArray
    """The load below which a move lowers the variance."""


def _walk(
    search: _FluxRounds,
    pairs: _Pairs,
    position: IntArray,
    step: int,
    edge: IntArray,
    chosen: IntArray,
) -> None:
    """Step through each donor's sorted key groups until one may go and can be paid for."""
    open_pairs = np.flatnonzero(chosen == NONE)
    position = position.copy()
    while len(open_pairs):
        at = position[open_pairs]
        inside = at >= edge[open_pairs] if step < 0 else at < edge[open_pairs]
        open_pairs = open_pairs[inside]
        groups = pairs.by_node[position[open_pairs]]
        load = search.load[groups]
        # Sorted: once the load is out of range, so is everything further on.
        in_range = (load > 0.0) & (load < pairs.limit[open_pairs])
        open_pairs, groups = open_pairs[in_range], groups[in_range]
        targets = pairs.receivers[open_pairs]
        may_go = search.problem.permits(groups, targets)
        may_go &= search.caps.fits(groups, targets)
        may_go &= search.purse.affords(groups, search.assignment[groups], targets)
        chosen[open_pairs[may_go]] = groups[may_go]
        open_pairs = open_pairs[~may_go]
        position[open_pairs] += step


def _first_above(
    values: FloatArray, begins: IntArray, ends: IntArray, threshold: FloatArray
) -> IntArray:
    """In each sorted slice [begin, end): the first position whose value exceeds the threshold."""
    low, high = begins.copy(), ends.copy()
    while bool(np.any(low < high)):
        middle = (low + high) // 2
        probe = values[np.minimum(middle, len(values) - 1)]
        goes_right = (low < high) & (probe <= threshold)
        goes_left = (low < high) & ~goes_right
        low = np.where(goes_right, middle + 1, low)
        high = np.where(goes_left, middle, high)
    return low


def _small(nodes: IntArray, n_nodes: int) -> npt.NDArray[Any]:
    """numpy sorts 16-bit numbers by radix, ten times faster; there are rarely more nodes."""
    return nodes.astype(np.uint16) if n_nodes < 2**16 else nodes


def _drain_with_what_is_left(search: _FluxRounds, clock: SolverClock) -> None:
    """Spend what is left on draining nodes, as far as no staying node gets worse for it."""
    problem = search.problem
    leaving = search.by_load[problem.draining[search.assignment[search.by_load]]][::-1]
    if not len(leaving):
        return
    purse = search.purse
    mean = metrics.mean_load(problem)
    fair = np.where(mean > 0, mean, 1.0) * problem.capacity
    weights = np.where(problem.balanced_mask, problem.weights, 0.0)
    relative = metrics.node_loads(problem, search.assignment) * problem.capacity / fair
    ceiling = search.best_distance / 100.0
    for k in leaving.tolist():
        if clock.is_over():
            return
        targets = problem.targets_of(k)
        targets = targets[search.caps.fits(np.full(len(targets), k), targets)]
        if not len(targets):
            continue
        after = ((relative[targets] + problem.load[k] / fair[targets] - 1.0) * weights).max(axis=1)
        at = int(np.argmin(after))
        if after[at] <= ceiling and purse.pay(k, 1):
            relative[targets[at]] += problem.load[k] / fair[targets[at]]
            search.move(k, int(targets[at]))
