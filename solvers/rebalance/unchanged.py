"""Makes only the necessary moves: off dead nodes, and off nodes that are not allowed.

Other methods are compared with it.
"""

from __future__ import annotations

from solvers.model.budget import Budget
from solvers.model.method import NoParameters, RebalanceMethod
from solvers.model.problem import Problem
from solvers.model.result import Result, SolverRun, infeasible_result, make_result
from solvers.model.stop import Stop
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.start import place_must_moves, why_infeasible

NAME = "unchanged"


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: NoParameters,  # noqa: ARG001
) -> Result:
    """Keep every key group where it is, except those that must move.

    Arguments and result are described in ``RebalanceMethod``.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    return make_result(
        problem,
        place_must_moves(problem, budget),
        SolverRun(
            method=NAME,
            bound=counting_bound(problem, budget),
            seconds=clock.elapsed(),
            reason="only what has to move was moved",
        ),
    )


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "makes only the necessary moves, largest first, each to the node where the load stays "
        "lowest"
    ),
    solve=solve,
)
