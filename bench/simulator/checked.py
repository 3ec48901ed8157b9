"""Plans of the simulator, which come into force only after the verifier has checked them."""

from __future__ import annotations

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.verify.assignment import verify


def checked(problem: Problem, budget: Budget, result: Result) -> dict[str, str]:
    """Return the node's name of each key group; raise if the plan breaks a promise."""
    if not result.is_solved:
        raise ValueError(f"there is no plan: {result.reason}")
    names = [problem.node_ids[i] for i in result.assignment]
    plan = dict(zip(problem.key_group_ids, names, strict=True))
    broken = verify(problem, budget, plan, result.to_dict())
    if broken:
        raise ValueError(f"a plan breaks a promise: {broken[0]}")
    return plan
