"""The least state moved for which the load is level enough: seed 002's MCLB, at any size.

MCLB asks for an even assignment with the fewest state movements. The search of
``solvers.rebalance`` finds the most even one within a budget; halving the budget finds the least
that is enough. Nothing moves while the load is within the tolerance: what a statistics window
shows of imbalance is partly noise, and following it moves state for nothing. See docs/adr/0039.
"""

from __future__ import annotations

import dataclasses

import solvers
from ballast.contracts.errors import InvalidInput
from solvers import metrics
from solvers.budget import Budget
from solvers.checks import is_finite
from solvers.problem import Problem
from solvers.rebalance import unchanged
from solvers.result import Result
from solvers.stop import Stop

METHOD = "search"
TRIES = 8
"""Halvings of the budget: the last step is below half a percent of what the best balance moves."""
SLACK = 1e-6
"""Percentage points, for sums of floats."""


def least_moved(
    problem: Problem,
    within: float,
    budget: Budget,
    stop: Stop,
    seed: int = 0,
    tries: int = TRIES,
) -> Result:
    """The plan of least bytes whose load distance is at most ``within`` percent.

    Where no plan within the budget is that level, the most level one, with the least bytes for
    it. The stopping rule is for each of the ``tries`` + 1 solves.
    """
    if not (is_finite(within) and within >= 0):
        raise InvalidInput(
            f"within is {within!r}", value=within, allowed="a number of percent >= 0"
        )
    if metrics.load_distance(problem, problem.current) <= within:
        still = unchanged.solve(problem, budget, stop, seed, {})
        if _is_enough(still, within + SLACK, 0.0):
            return still
    best = solvers.solve(problem, budget, stop, seed, METHOD)
    enough = max(within, best.load_distance) + SLACK
    low = 0
    for _ in range(tries if best.is_solved else 0):
        limit = (low + best.bytes) // 2
        if limit <= low:
            break
        tighter = dataclasses.replace(budget, bytes=limit)
        found = solvers.solve(problem, tighter, stop, seed, METHOD)
        if _is_enough(found, enough, best.draining_load):
            best = found
        else:
            low = limit
    return best


def _is_enough(plan: Result, within: float, draining_load: float) -> bool:
    """Level enough, and no more load than that is left on draining nodes."""
    return (
        plan.is_solved
        and plan.load_distance <= within
        and plan.draining_load <= draining_load + SLACK
    )
