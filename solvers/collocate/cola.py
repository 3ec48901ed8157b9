"""COLA [ICDE17, 2.1]: start from one partition and split until the load is level.

Each split is a balanced graph partitioning of the heaviest partition. Partitions go to nodes
largest first, each to the node where the load stays lowest. COLA plans from scratch, without a
budget and without the current placement: it is a first placement, and a baseline that shows how
much a new plan from scratch moves. With a budget its plan is repaired (plan_repair.py).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ballast.contracts.methods import MethodLimit, MethodNeed
from solvers.collocate.partition import partition
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, infeasible_result, make_result
from solvers.model.stop import Stop
from solvers.model.traffic_graph import TrafficGraph
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.plan_repair import repair_plan
from solvers.rebalance.start import normalised_loads, why_infeasible

NAME = "cola"


@dataclass(frozen=True, slots=True)
class ColaParams:
    """Parameters of COLA."""

    max_load_distance: Annotated[
        float,
        Parameter("load distance at which splitting ends, in percent of the mean", above=0),
    ] = 10.0

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(problem: Problem, budget: Budget, stop: Stop, seed: int, params: ColaParams) -> Result:
    """Place every key group from scratch.

    Returns:
        The plan. COLA knows no budget: moves that are worth least are undone until it holds.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    assignment = place_from_scratch(problem, params.max_load_distance, seed, clock.is_over)
    repaired = repair_plan(problem, budget, assignment, is_joint=True)
    return make_result(
        problem,
        repaired.assignment,
        SolverRun(
            method=NAME,
            bound=counting_bound(problem, budget),
            seconds=clock.elapsed(),
            reason=repaired.reason(),
        ),
    )


def place_from_scratch(
    problem: Problem,
    max_load_distance: float,
    seed: int,
    is_over: Callable[[], bool] = lambda: False,
) -> IntArray:
    """Return [key groups]: the node of each key group.

    The heaviest partition is split until the load is level, no partition can be split, or
    ``is_over`` says that the time is over.
    """
    graph = TrafficGraph.of(problem)
    weight = normalised_loads(problem)
    heaviest = weight.max(axis=1)
    free = np.flatnonzero(~problem.pinned_mask)
    number = itertools.count()
    parts = [(-float(heaviest[free].sum()), next(number), free)]
    best = _place(problem, weight, [free])
    least = metrics.load_distance(problem, best)
    while least > max_load_distance and len(parts[0][2]) > 1 and not is_over():
        _, _, members = heapq.heappop(parts)
        halves = partition(graph.subgraph(members), heaviest[members], 2, seed=seed)
        for half in (members[halves == 0], members[halves == 1]):
            heapq.heappush(parts, (-float(heaviest[half].sum()), next(number), half))
        plan = _place(problem, weight, [p[2] for p in sorted(parts)])
        distance = metrics.load_distance(problem, plan)
        if distance < least:
            best, least = plan, distance
    return best


def _place(problem: Problem, weight: FloatArray, parts: list[IntArray]) -> IntArray:
    """Place partitions in order; a member that may not come with its partition goes last."""
    nodes = np.flatnonzero(problem.staying)
    room = problem.capacity / problem.capacity[problem.staying].mean(axis=0)
    plan = problem.current.copy()
    sums = np.zeros((problem.n_nodes, problem.n_resources))
    pinned = problem.pinned_mask
    np.add.at(sums, plan[pinned], weight[pinned])
    left: list[int] = []
    for part in parts:
        after = ((sums[nodes] + weight[part].sum(axis=0)) / room[nodes]).max(axis=1)
        node = int(nodes[int(np.argmin(after))])
        comes = problem.permits(part, np.full(len(part), node))
        plan[part[comes]] = node
        sums[node] += weight[part[comes]].sum(axis=0)
        left.extend(part[~comes].tolist())
    for k in left:
        targets = problem.targets_of(k)
        if not len(targets):
            continue  # Its only allowed node is the draining one it is on.
        after = ((sums[targets] + weight[k]) / room[targets]).max(axis=1)
        plan[k] = targets[int(np.argmin(after))]
        sums[plan[k]] += weight[k]
    return plan


METHOD = RebalanceMethod(
    name=NAME,
    summary="splits the graph of key groups until the load is level, and places everything anew",
    paper="ICDE17, 2.1",
    params=ColaParams,
    needs=(MethodNeed.TRAFFIC,),
    cannot=(MethodLimit.BUDGET,),
    solve=solve,
)
