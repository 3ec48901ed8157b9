"""Operators mapped to clusters by their load: [DODO, 6.2.1], as a method for plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ballast.contracts.methods import MethodLimit, MethodNeed
from solvers.model.budget import Budget
from solvers.model.method import RebalanceMethod, check_parameters
from solvers.model.problem import Problem
from solvers.model.result import Result, infeasible_result
from solvers.model.stop import Stop
from solvers.place.cluster_mapping import static_mapping
from solvers.place.mapped_plan import ClusteredProblem, MappingRun, mapped_result
from solvers.rebalance.start import why_infeasible

NAME = "static_mapping"


@dataclass(frozen=True, slots=True)
class StaticMappingParams:
    """Parameters of the static mapping."""

    clusters: Mapping[str, str] | None = field(default=None, compare=False)
    """Cluster of each node."""

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: StaticMappingParams
) -> Result:
    """Map every operator to a cluster by its load, largest first, and move its key groups there.

    Arguments and result are described in ``RebalanceMethod``.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    clustered = ClusteredProblem.of(problem, budget, params.clusters, NAME)
    mapping = static_mapping(clustered.by_operator(clustered.load), clustered.sizes)
    return mapped_result(clustered, mapping, MappingRun(NAME, budget, stop, clock, seed))


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "maps whole operators, largest first, each to the cluster whose load a node is least with "
        "it, and levels the nodes of each cluster"
    ),
    paper="DODO, 6.2.1",
    params=StaticMappingParams,
    needs=(MethodNeed.CLUSTERS,),
    cannot=(MethodLimit.BUDGET, MethodLimit.SEVERAL_RESOURCES),
    solve=solve,
)
