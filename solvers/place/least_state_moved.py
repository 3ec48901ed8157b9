"""The least state moved for which the load is level enough: [AUTODASP17]'s MCLB, at any size.

MCLB asks for an even assignment with the fewest state movements. The search of
``solvers.rebalance`` finds the most even one within a budget; halving the budget finds the least
that is enough. Nothing moves while the load is within the tolerance: what a statistics window
shows of imbalance is partly noise, and following it moves state for nothing. See docs/adr/0039.
"""

from __future__ import annotations

import dataclasses

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
"""Halvings of the budget: the last step is below half a percent of what the best balance moves."""
SLACK = 1e-6
"""Percentage points, for sums of floats."""


def least_state_moved(
    problem: Problem,
    within: float,
    budget: Budget,
    stop: Stop,
    seed: int = 0,
    tries: int = TRIES,
) -> Result:
    """The plan of least bytes whose load distance is at most ``within`` percent.

    Where no plan within the budget is that level, the most level one, with the least bytes for
    it. The stopping rule is for each of the ``tries`` + 1 solves. The bound is on the load
    distance of every plan within the budget, as with any method.
    """
    if not is_finite_and_not_negative(within):
        raise InvalidInput(
            f"within is {within!r}", value=within, allowed="a number of percent >= 0"
        )
    if metrics.load_distance(problem, problem.current) <= within:
        still = unchanged.solve(problem, budget, stop, seed, unchanged.UnchangedParams())
        if _is_enough(still, within + SLACK, 0.0):
            return still
    clock = Stop().start()
    level = solve(problem, budget, stop, seed, METHOD)
    if not level.is_solved:
        return level
    cheapest = _cheapest(problem, level, within, budget, stop, seed, tries)
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


def _cheapest(
    problem: Problem,
    level: Result,
    within: float,
    budget: Budget,
    stop: Stop,
    seed: int,
    tries: int,
) -> Result:
    """From the most level plan down to the least budget that is still enough."""
    start = [level, *_by_peeling(problem, within, budget)]
    enough = max(within, min(plan.load_distance for plan in start)) + SLACK
    best = min((p for p in start if p.load_distance <= enough), key=lambda p: p.bytes)
    low = 0
    for _ in range(tries):
        limit = (low + best.bytes) // 2
        if limit <= low:
            break
        tighter = dataclasses.replace(budget, bytes=limit)
        found = solve(problem, tighter, stop, seed, METHOD)
        best = _cheaper(best, found, enough)
        low = low if best is found else limit
    return best


def _by_peeling(problem: Problem, within: float, budget: Budget) -> list[Result]:
    assignment = move_excess(problem, within, budget)
    if assignment is None:
        return []
    return [make_result(problem, assignment, SolverRun(method=NAME, bound=0.0, seconds=0.0))]


def _cheaper(best: Result, other: Result, enough: float) -> Result:
    is_cheaper = _is_enough(other, enough, best.draining_load) and other.bytes < best.bytes
    return other if is_cheaper else best


def _is_enough(plan: Result, within: float, draining_load: float) -> bool:
    """Level enough, and no more load than that is left on draining nodes."""
    return (
        plan.is_solved
        and plan.load_distance <= within
        and plan.draining_load <= draining_load + SLACK
    )
