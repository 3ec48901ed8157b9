"""Rebalance key groups by a named method: ``solve(problem, budget, stop, seed, method,
params)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.parameter_checks import is_whole
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.rebalance import METHODS
from solvers.rebalance.warm import make_ready


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int = 0,
    method: str = "auto",
    params: Mapping[str, Any] | None = None,
) -> Result:
    """Rebalance the problem's key groups within the budget by the named method."""
    if method not in METHODS:
        raise InvalidInput(
            f"there is no method {method!r}", value=method, allowed=", ".join(METHODS)
        )
    if not is_whole(seed, at_least=0):
        raise InvalidInput(f"seed is {seed!r}", value=seed, allowed="a whole number >= 0")
    seconds, compiled = make_ready(problem.n_resources > 1)
    result = METHODS[method](problem, budget, stop, seed, params or {})
    if not compiled:
        return result
    note = f"compiled its loops in {seconds:.0f} s before, for there was no cache"
    return replace(result, reason=f"{note}; {result.reason}" if result.reason else note)
