"""Flux, the baseline of [ICDE17, 2.2]: pair the fullest node with the emptiest.

Each round sorts the nodes by load in descending order and moves the biggest suitable key group
from the first to the last, from the second to the second last, and so on. Rounds repeat while the
variance falls and budget is left. As in [ICDE17, 3], only the bottleneck resource counts: the
balanced one with the greatest weighted use. A move that breaks a cap is not made.

The paper does not define "suitable": here it is the biggest key group that brings donor and
receiver closer without overshooting, otherwise the smallest that lowers the variance. With
capacities the variance is that of load / capacity. A draining node is a donor with a target of 0,
so that draining and overloaded nodes are ordered by the same surplus. The result is the plan of
the best round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.pause import move_pause_s
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

    patience: Annotated[
        int, Parameter("rounds without a better load distance before it stops", at_least=1)
    ] = 8

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: FluxParams,
) -> Result:
    """Balance with Flux. It is deterministic, so the seed has no effect.

    Arguments and result are described in ``RebalanceMethod``.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    search = _FluxRounds(problem, budget)
    trace = _run_rounds(search, stop, clock, params)
    search.restore_best()
    _spend_rest_on_drains(search, clock)
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


class _BudgetLeft:
    """The rest of the budget. A key group that returns to its first node returns its cost."""

    def __init__(self, problem: Problem, budget: Budget) -> None:
        self._home = problem.current
        self._is_free = metrics.forced_mask(problem)
        self._costs = [
            (cost, slack)
            for limit, cost, slack in (
                (budget.moves, np.ones(problem.n_key_groups), 0.0),
                (budget.bytes, problem.state_bytes.astype(np.float64), 0.0),
                (budget.pause_s, move_pause_s(problem), budget.pause_slack_s),
            )
            if limit is not None
        ]
        limits = [x for x in (budget.moves, budget.bytes, budget.pause_s) if x is not None]
        self._left = np.array(limits, dtype=np.float64)

    def cost_sign(self, groups: IntArray, sources: IntArray, targets: IntArray) -> IntArray:
        """Return the sign of each cost: 1, 0 or -1.

        1 is a new move, -1 a move back to the first node, and 0 a move of a key group that moved
        before or must move.
        """
        home = self._home[groups]
        sign = (targets != home).astype(np.int64) - (sources != home)
        sign[self._is_free[groups]] = 0
        return np.asarray(sign, dtype=np.int64)

    def is_within_budget(self, groups: IntArray, sources: IntArray, targets: IntArray) -> BoolArray:
        """Return, for each move alone, whether the budget allows it."""
        sign = self.cost_sign(groups, sources, targets)
        fits = np.ones(len(groups), dtype=bool)
        for (cost, slack), left in zip(self._costs, self._left, strict=True):
            fits &= (sign <= 0) | (cost[groups] <= left + slack)
        return fits

    def spend(self, group: int, sign: int) -> bool:
        """Subtract the cost of one move; return False, and change nothing, if it is too high."""
        price = np.array([cost[group] for cost, _ in self._costs]) * sign
        slack = np.array([slack for _, slack in self._costs])
        if sign > 0 and bool(np.any(price > self._left + slack)):
            return False
        self._left -= price
        return True


class _Caps:
    """The load of each node in the capped resources, and the limits that no move may exceed."""

    def __init__(self, problem: Problem, assignment: IntArray) -> None:
        capped = ~problem.balanced_mask
        self.is_empty = not bool(capped.any())
        self._load: FloatArray = problem.load[:, capped]
        self._limit: FloatArray = problem.cap_limit[:, capped] * (1 + metrics.CAP_TOLERANCE)
        sums = metrics.node_loads(problem, assignment) * problem.capacity
        self._sums: FloatArray = sums[:, capped]

    def fits(self, groups: IntArray, targets: IntArray) -> BoolArray:
        """Return, for each move alone, whether the target keeps its caps."""
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
        self.budget_left = self._budget_left_after(budget)
        movable = np.flatnonzero(movable_mask(problem, budget))
        self.by_load = movable[np.argsort(self.load[movable], kind="stable")]
        self.best = self.assignment.copy()
        self.best_distance = metrics.load_distance(problem, self.best)

    def _budget_left_after(self, budget: Budget) -> _BudgetLeft:
        """Return the rest of the budget after the moves of the assignment."""
        budget_left = _BudgetLeft(self.problem, budget)
        moved = np.flatnonzero(self.assignment != self.problem.current)
        signs = budget_left.cost_sign(moved, self.problem.current[moved], self.assignment[moved])
        for k, sign in zip(moved, signs, strict=True):
            budget_left.spend(int(k), int(sign))
        return budget_left

    def surplus(self) -> FloatArray:
        """[N]: load above the target; the target is the mean, or 0 on a draining node."""
        sums = np.bincount(self.assignment, weights=self.load, minlength=self.problem.n_nodes)
        return sums / self.capacity - np.where(self.problem.staying, self.mean, 0.0)

    def restore_best(self) -> None:
        """Restore the best plan, with its caps and its rest of the budget."""
        self.assignment = self.best
        self.budget_left = self._budget_left_after(self.budget)
        self.caps = _Caps(self.problem, self.best)

    def move(self, group: int, target: int) -> None:
        self.caps.move(group, int(self.assignment[group]), target)
        self.assignment[group] = target

    def keep_if_best(self) -> bool:
        """Keep the assignment if it is the best so far; return whether it is."""
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
        if search.keep_if_best():
            idle = 0
            trace.append((clock.elapsed(), f"round {rounds}", search.best_distance))
        else:
            idle += 1
    return trace


def _one_round(search: _FluxRounds) -> bool:
    """Move one key group in each pair of nodes; return False if nothing could be moved."""
    donors, receivers, limit = _pairs(search)
    groups = _biggest_suitable(search, donors, receivers, limit)
    found = groups != NONE
    groups, donors, receivers = groups[found], donors[found], receivers[found]
    signs = search.budget_left.cost_sign(groups, donors, receivers)
    any_moved = False
    for k, target, sign in zip(groups, receivers, signs, strict=True):
        if search.budget_left.spend(int(k), int(sign)):
            search.move(int(k), int(target))
            any_moved = True
    return any_moved


def _pairs(search: _FluxRounds) -> tuple[IntArray, IntArray, FloatArray]:
    """Return donors, receivers, and for each pair the load below which a move helps.

    The fullest node is paired with the emptiest, the second fullest with the second emptiest, ...
    A smaller load than the limit lowers the variance.
    """
    surplus = search.surplus()
    staying = search.problem.staying
    takes_part = staying | (search.problem.draining & (surplus > 0))
    order = np.flatnonzero(takes_part)
    order = order[np.argsort(-surplus[order], kind="stable")]
    place = np.arange(len(order))
    receiver_place = place[staying[order]][::-1]
    donor_place = place[: len(receiver_place)]
    # A node is either donor or receiver in a round, because its load is computed once per round.
    is_disjoint = donor_place < receiver_place
    donors, receivers = order[donor_place[is_disjoint]], order[receiver_place[is_disjoint]]
    per_donor, per_receiver = 1 / search.capacity[donors], 1 / search.capacity[receivers]
    slope = surplus[donors] * per_donor - surplus[receivers] * per_receiver
    limit = 2 * slope / (per_donor**2 + per_receiver**2)
    helps = limit > 0
    return donors[helps], receivers[helps], limit[helps]


def _biggest_suitable(
    search: _FluxRounds, donors: IntArray, receivers: IntArray, limit: FloatArray
) -> IntArray:
    """Return the key group to move in each pair, or NONE."""
    node_of = search.assignment[search.by_load]
    by_node = search.by_load[
        np.argsort(_as_short_integers(node_of, search.problem.n_nodes), kind="stable")
    ]
    ends = np.cumsum(np.bincount(node_of, minlength=search.problem.n_nodes))
    begins = np.concatenate(([0], ends[:-1]))
    loads = search.load[by_node]
    # A load of half the limit makes the surplus of donor and receiver equal.
    middle = _first_above(loads, begins[donors], ends[donors], limit / 2)
    chosen = np.full(len(donors), NONE, dtype=np.int64)
    pairs = _Pairs(by_node, receivers, limit)
    _first_that_may_move(search, pairs, middle - 1, -1, begins[donors], chosen)
    _first_that_may_move(search, pairs, middle, +1, ends[donors], chosen)
    return chosen


@dataclass(frozen=True, eq=False, slots=True)
class _Pairs:
    """Pairs of a donor and a receiver in one round."""

    by_node: IntArray
    """All key groups, sorted by node and then by load."""
    receivers: IntArray
    limit: FloatArray
    """The load below which a move lowers the variance."""


def _first_that_may_move(
    search: _FluxRounds,
    pairs: _Pairs,
    position: IntArray,
    step: int,
    edge: IntArray,
    chosen: IntArray,
) -> None:
    """Write the first key group of each donor that may move, in this order, to ``chosen``.

    A move must be allowed, keep the caps and be within the budget.
    """
    open_pairs = np.flatnonzero(chosen == NONE)
    position = position.copy()
    while len(open_pairs):
        at = position[open_pairs]
        inside = at >= edge[open_pairs] if step < 0 else at < edge[open_pairs]
        open_pairs = open_pairs[inside]
        groups = pairs.by_node[position[open_pairs]]
        load = search.load[groups]
        # The loads are sorted, so all further ones are out of range too.
        in_range = (load > 0.0) & (load < pairs.limit[open_pairs])
        open_pairs, groups = open_pairs[in_range], groups[in_range]
        targets = pairs.receivers[open_pairs]
        may_move = search.problem.permits(groups, targets)
        may_move &= search.caps.fits(groups, targets)
        may_move &= search.budget_left.is_within_budget(groups, search.assignment[groups], targets)
        chosen[open_pairs[may_move]] = groups[may_move]
        open_pairs = open_pairs[~may_move]
        position[open_pairs] += step


def _first_above(
    values: FloatArray, begins: IntArray, ends: IntArray, threshold: FloatArray
) -> IntArray:
    """Return the first position of each sorted slice [begin, end) with a value > threshold."""
    low, high = begins.copy(), ends.copy()
    while bool(np.any(low < high)):
        middle = (low + high) // 2
        probe = values[np.minimum(middle, len(values) - 1)]
        goes_right = (low < high) & (probe <= threshold)
        goes_left = (low < high) & ~goes_right
        low = np.where(goes_right, middle + 1, low)
        high = np.where(goes_left, middle, high)
    return low


def _as_short_integers(nodes: IntArray, n_nodes: int) -> npt.NDArray[Any]:
    """Return the nodes as 16-bit integers if they fit: numpy sorts these ten times faster."""
    return nodes.astype(np.uint16) if n_nodes < 2**16 else nodes


def _spend_rest_on_drains(search: _FluxRounds, clock: SolverClock) -> None:
    """Move key groups off draining nodes while the budget allows it.

    No staying node may exceed the load distance of the plan.
    """
    problem = search.problem
    leaving = search.by_load[problem.draining[search.assignment[search.by_load]]][::-1]
    if not len(leaving):
        return
    budget_left = search.budget_left
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
        if after[at] <= ceiling and budget_left.spend(k, 1):
            relative[targets[at]] += problem.load[k] / fair[targets[at]]
            search.move(k, int(targets[at]))


METHOD = RebalanceMethod(
    name=NAME,
    summary="pairs the fullest node with the emptiest, and so on, in rounds",
    paper="ICDE17, 2.2",
    params=FluxParams,
    solve=solve,
)
