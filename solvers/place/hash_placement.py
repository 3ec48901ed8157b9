"""First placement by the hash of each key group's name, as a job without a plan is placed."""

from __future__ import annotations

import zlib

import numpy as np

from ballast.contracts.methods import MethodLimit
from solvers.model.budget import Budget
from solvers.model.method import NoParameters, RebalanceMethod
from solvers.model.problem import Problem
from solvers.model.result import Result, infeasible_result
from solvers.model.stop import Stop
from solvers.place.instances import repaired_result
from solvers.rebalance.start import why_infeasible

NAME = "hash"


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: NoParameters,  # noqa: ARG001
) -> Result:
    """Place each key group on a node that stays by the hash of its name.

    Arguments and result are described in ``RebalanceMethod``.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    nodes = np.flatnonzero(problem.staying)
    hashes = [zlib.crc32(name.encode()) % len(nodes) for name in problem.key_group_ids]
    wanted = nodes[np.array(hashes, dtype=np.int64)]
    return repaired_result(problem, budget, wanted, NAME, clock.elapsed())


METHOD = RebalanceMethod(
    name=NAME,
    summary="places each key group by the hash of its name, as a job without a plan is placed",
    cannot=(MethodLimit.BUDGET,),
    solve=solve,
)
