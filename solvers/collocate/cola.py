"""COLA as [ICDE17] describes it (2.1): start from one partition and split until load is level.

Each split is a balanced graph partitioning of the heaviest partition; partitions go to nodes
largest first, each to where the load stays lowest. It plans from scratch and knows neither where
key groups are nor a budget: a first placement, and the baseline that shows what re-planning moves.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.collocate.partition import partition
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.parameter_checks import options_of
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, infeasible_result, make_result
from solvers.model.stop import Stop
from solvers.model.traffic_graph import TrafficGraph
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.start import normalised_loads, why_infeasible, within_budget

NAME = "cola"


@dataclass(frozen=True, slots=True)
class ColaParams:
    """``max_load_distance``: percent of the mean at which splitting ends."""

    max_load_distance: float = 10.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.max_load_distance) and self.max_load_distance > 0):
            raise InvalidInput("cola.max_load_distance needs a number > 0")


def solve(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: Mapping[str, Any]
) -> Result:
    """Place everything anew; infeasible when that takes more than the budget."""
    clock = stop.start()
    options = options_of(ColaParams, NAME, params)
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    assignment = place_from_scratch(problem, options.max_load_distance, seed)
    if not within_budget(problem, budget, assignment):
        reason = (
            "COLA places everything anew, and that is over the budget; give it no budget, or use "
            "a method that starts from the current placement"
        )
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    return make_result(
        problem,
        assignment,
        SolverRun(method=NAME, bound=counting_bound(problem, budget), seconds=clock.elapsed()),
    )


def place_from_scratch(
    problem: Problem,
    max_load_distance: float,
    seed: int,
    is_over: Callable[[], bool] = lambda: False,
) -> IntArray:
    """Split the heaviest partition until the load is level, nothing is left to split, or time is
    over."""
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
    """Partitions largest first; a member that may not be there is placed by itself at the end."""
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
            continue  # Allowed only where it is, on a draining node: it stays.
        after = ((sums[targets] + weight[k]) / room[targets]).max(axis=1)
        plan[k] = targets[int(np.argmin(after))]
        sums[plan[k]] += weight[k]
    return plan
