"""Operators moved between clusters by the correlation of loads: [DODO, 6.2.2], for plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from ballast.contracts.methods import MethodLimit, MethodNeed
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import FloatArray, Problem
from solvers.model.result import Result, infeasible_result
from solvers.model.stop import Stop
from solvers.place.cluster_mapping import dynamic_mapping, mapping_after
from solvers.place.mapped_plan import ClusteredProblem, MappingRun, mapped_result
from solvers.rebalance.start import why_infeasible

NAME = "dynamic_mapping"


@dataclass(frozen=True, slots=True)
class DynamicMappingParams:
    """Parameters of the dynamic mapping. The thesis prints no values for the thresholds."""

    windows: Annotated[
        int, Parameter("newest steps of the load series that are compared", at_least=1)
    ] = 8
    load_threshold: Annotated[
        float,
        Parameter(
            "difference of the load a node, in units of a node, above which operators move",
            at_least=0,
        ),
    ] = 0.15
    correlation_threshold: Annotated[
        float,
        Parameter(
            "correlation of two clusters below which operators move; above 1 it never forbids",
            at_least=-1,
            at_most=2,
        ),
    ] = 1.1
    weigh_by_capacity: Annotated[
        bool, Parameter("whether loads count per node of the cluster, or per cluster")
    ] = True
    clusters: Mapping[str, str] | None = field(default=None, compare=False)
    """Cluster of each node."""
    series: FloatArray | None = field(default=None, compare=False)
    """[key groups, resources, steps]: the load series."""

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(
    problem: Problem, budget: Budget, stop: Stop, seed: int, params: DynamicMappingParams
) -> Result:
    """Move operators from the fullest cluster to the emptiest, worst fitting series first.

    Arguments and result are described in ``RebalanceMethod``. Without a series the load of the
    period is the only window.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    clustered = ClusteredProblem.of(problem, budget, params.clusters, NAME)
    series = problem.load[:, :, None] if params.series is None else params.series
    room = float(problem.capacity[problem.staying, clustered.resource].mean())
    newest = np.asarray(series[:, clustered.resource, -params.windows :] / room)
    mapping = clustered.mapping_now()
    moves = dynamic_mapping(
        clustered.by_operator(newest),
        mapping,
        clustered.sizes,
        load_threshold=params.load_threshold,
        correlation_threshold=params.correlation_threshold,
        weigh_by_capacity=params.weigh_by_capacity,
    )
    mapping = mapping_after(mapping, moves)
    return mapped_result(clustered, mapping, MappingRun(NAME, budget, stop, clock, seed))


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "moves whole operators from the fullest cluster to the emptiest, those first whose load "
        "rises and falls with the rest of theirs, and levels the nodes of each cluster"
    ),
    paper="DODO, 6.2.2",
    params=DynamicMappingParams,
    needs=(MethodNeed.CLUSTERS, MethodNeed.SERIES),
    cannot=(MethodLimit.BUDGET, MethodLimit.SEVERAL_RESOURCES),
    solve=solve,
)
