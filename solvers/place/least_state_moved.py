"""The least state moved that makes the load level enough: MCLB of [AUTODASP17] at any size.

MCLB asks for an even assignment with the fewest state movements. The search of
``solvers.rebalance`` finds the most even assignment within a budget, so halving the budget finds
the smallest budget that is enough. Nothing moves while the load is within the tolerance: part of
the imbalance of a statistics window is noise, and following noise moves state for nothing. See
ADR 39.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ballast.contracts.errors import InvalidInput
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.parameter_checks import is_finite_and_not_negative
from solvers.model.problem import Problem
from solvers.model.result import Result, SolverRun, make_result
from solvers.model.stop import Stop
from solvers.place.excess_moves import move_excess
from solvers.rebalance import unchanged
from solvers.rebalance.solve import solve

METHOD = "search"
NAME = "least_moved"
TRIES = 8
"""Halvings of the budget; the last one is below half a percent of what the best balance moves."""
SLACK = 1e-6
"""Tolerance for rounding of sums, in percentage points."""


def least_state_moved(
    problem: Problem,
    within: float,
    budget: Budget,
    stop: Stop,
    seed: int = 0,
    tries: int = TRIES,
) -> Result:
    """The plan with the fewest bytes whose load distance is at most ``within`` percent.

    If no plan within the budget is level enough, the result is the most level plan with the fewest
    bytes for it. The bound is on the load distance of every plan within the budget.

    Args:
        within: largest load distance that is level enough, in percent.
        stop: the stopping rule of each of the ``tries`` + 1 solves.
        tries: how often the budget is halved.

    Raises:
        InvalidInput: ``within`` is negative or not finite.
    """
    if not is_finite_and_not_negative(within):
        raise InvalidInput(
            f"within is {within!r}", value=within, allowed="a number of percent >= 0"
        )
    if metrics.load_distance(problem, problem.current) <= within:
        still = unchanged.METHOD.solve_with_defaults(problem, budget, stop, seed)
        if _is_enough(still, within + SLACK, 0.0):
            return still
    clock = Stop().start()
    level = solve(problem, budget, stop, seed, METHOD)
    if not level.is_solved:
        return level
    search = _BudgetSearch(problem, within, budget, stop, seed)
    cheapest = search.cheapest(level, tries)
    return make_result(
        problem,
        cheapest.assignment.copy(),
        SolverRun(
            method=NAME,
            bound=level.bound or 0.0,
            seconds=clock.elapsed(),
            reason=f"{cheapest.bytes} bytes; the most level plan would move {level.bytes}",
        ),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _BudgetSearch:
    """Search for the smallest budget of bytes with a plan that is level enough."""

    problem: Problem
    within: float
    budget: Budget
    stop: Stop
    seed: int

    def cheapest(self, level: Result, tries: int) -> Result:
        """The plan with the fewest bytes that is level enough, starting from the most level one."""
        start = [level, *self._with_excess_moved()]
        enough = max(self.within, min(plan.load_distance for plan in start)) + SLACK
        best = min((p for p in start if p.load_distance <= enough), key=lambda p: p.bytes)
        low = 0
        for _ in range(tries):
            limit = (low + best.bytes) // 2
            if limit <= low:
                break
            tighter = dataclasses.replace(self.budget, bytes=limit)
            found = solve(self.problem, tighter, self.stop, self.seed, METHOD)
            best = _cheaper(best, found, enough)
            low = low if best is found else limit
        return best

    def _with_excess_moved(self) -> list[Result]:
        assignment = move_excess(self.problem, self.within, self.budget)
        if assignment is None:
            return []
        return [
            make_result(self.problem, assignment, SolverRun(method=NAME, bound=0.0, seconds=0.0))
        ]


def _cheaper(best: Result, other: Result, enough: float) -> Result:
    is_cheaper = _is_enough(other, enough, best.draining_load) and other.bytes < best.bytes
    return other if is_cheaper else best


def _is_enough(plan: Result, within: float, draining_load: float) -> bool:
    """Whether a plan is level enough and leaves at most this load on draining nodes."""
    return (
        plan.is_solved
        and plan.load_distance <= within
        and plan.draining_load <= draining_load + SLACK
    )
