"""Doing nothing, or no more than dead nodes and allowed nodes make necessary: the yardstick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import Result, infeasible_result, make_result
from solvers.model.stop import Stop
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.start import place_must_moves, why_infeasible

NAME = "unchanged"


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: Mapping[str, Any],
) -> Result:
    """Keep every key group where it is, but for those that must move."""
    if params:
        raise InvalidInput(f"method 'unchanged' has no parameters, got {sorted(params)}")
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    return make_result(
        problem,
        place_must_moves(problem, budget),
        method=NAME,
        bound=counting_bound(problem, budget),
        seconds=clock.elapsed(),
        reason="only what has to move was moved",
    )
