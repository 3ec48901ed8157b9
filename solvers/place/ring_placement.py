"""First placement on a ring of hashed nodes, in proportion to their capacity ([DODO, 7.1.3])."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ballast.contracts.methods import MethodLimit
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import Problem
from solvers.model.result import Result, infeasible_result
from solvers.model.stop import Stop
from solvers.place.hash_ring import POINTS, HashRing
from solvers.place.instances import repaired_result
from solvers.rebalance.start import why_infeasible

NAME = "ring"


@dataclass(frozen=True, slots=True)
class RingParams:
    """Parameters of the ring."""

    points: Annotated[
        int, Parameter("points of an average node on the ring", at_least=1, at_most=100_000)
    ] = POINTS

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: RingParams,
) -> Result:
    """Place each key group on the next node of the ring; a node has points by its capacity.

    Arguments and result are described in ``RebalanceMethod``. Of several resources the one that a
    node has least of, compared with an average node, counts.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    nodes = np.flatnonzero(problem.staying)
    room = problem.capacity[nodes]
    sizes = (room / room.mean(axis=0)).min(axis=1)
    index = {problem.node_ids[i]: i for i in nodes.tolist()}
    ring = HashRing(dict(zip(index, sizes.tolist(), strict=True)), params.points)
    wanted = np.array([index[ring.node_of(name)] for name in problem.key_group_ids], dtype=np.int64)
    return repaired_result(problem, budget, wanted, NAME, clock.elapsed())


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "places key groups on a ring of hashed nodes by capacity, so that a change of nodes moves "
        "few of them"
    ),
    paper="DODO, 7.1.3",
    params=RingParams,
    cannot=(MethodLimit.BUDGET,),
    solve=solve,
)
