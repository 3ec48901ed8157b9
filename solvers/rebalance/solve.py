"""Rebalance key groups by a method that is chosen by name: the entry point of this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.method import RebalanceMethod
from solvers.model.parameter_checks import is_whole, options_of
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.rebalance import METHODS
from solvers.rebalance.compile_kernels import make_ready


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int = 0,
    method: str = "auto",
    params: Mapping[str, Any] | None = None,
) -> Result:
    """Rebalance the key groups of the problem within the budget.

    Args:
        problem: Nodes, key groups, loads and the current assignment.
        budget: Limits on the moves that are not forced.
        stop: When to stop: after seconds, after steps, or when the method is done.
        seed: Seed of the random numbers. The same seed and steps give the same plan.
        method: A name in ``METHODS``.
        params: Parameters of the method by name, see the dataclass of the method. For ``auto``:
            a mapping for each of ``flux``, ``search`` and ``milp``.

    Returns:
        The plan with all its figures. A problem without a plan has the status ``infeasible``.

    Raises:
        InvalidInput: The method, the seed or a parameter is not valid.
    """
    if method not in METHODS:
        raise InvalidInput(
            f"there is no method {method!r}", value=method, allowed=", ".join(METHODS)
        )
    chosen = METHODS[method]
    options = options_of(chosen.params, method, params or {})
    return solve_by(chosen, problem, budget, stop, seed, options)


def solve_by(
    method: RebalanceMethod, problem: Problem, budget: Budget, stop: Stop, seed: int, options: Any
) -> Result:
    """Rebalance by a method with parsed parameters; its loops are compiled before its time runs.

    Args:
        method: A value of ``METHODS``.
        problem: Nodes, key groups, loads and the current assignment.
        budget: Limits on the moves that are not forced.
        stop: When to stop.
        seed: Seed of the random numbers.
        options: The parameters of the method, as its dataclass.

    Raises:
        InvalidInput: The seed is not valid.
    """
    if not is_whole(seed, at_least=0):
        raise InvalidInput(f"seed is {seed!r}", value=seed, allowed="a whole number >= 0")
    seconds, compiled = make_ready(problem.n_resources > 1)
    result = method.solve(problem, budget, stop, seed, options)
    if not compiled:
        return result
    note = f"compiled its loops in {seconds:.0f} s first, because there was no cache"
    return replace(result, reason=f"{note}; {result.reason}" if result.reason else note)
