"""Whether a method fits a job: its needs and limits against what the job has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ballast.contracts.methods import (
    MethodEntry,
    MethodLimit,
    MethodNeed,
    PlanningProblem,
    flat_parameters,
    methods_of,
)

if TYPE_CHECKING:
    # policy imports this module.
    from ballast.contracts.policy import JobPolicy


@dataclass(frozen=True, slots=True)
class MethodConditions:
    """What a job has of that which methods need, and what it asks of them."""

    has_traffic: bool
    """Whether records go from one operator to another."""
    has_series: bool
    """Whether the load of each key group is known over time."""
    clusters: int
    """Number of clusters of nodes; 0 where clusters are not known."""
    balanced_resources: int
    has_equal_nodes: bool
    """Whether all nodes have the same capacity of every balanced resource."""
    shares_partition_keys: bool
    """Whether two operators of one edge have the same partition key."""


@dataclass(frozen=True, slots=True)
class MethodMisfit:
    """Why a policy cannot use the method that it names."""

    field: str
    problem: str
    value: object
    allowed: str | None
    remedy: str


def conditions_of(policy: JobPolicy) -> MethodConditions:
    """What a job has by its policy. Its snapshots have load series where the method needs them."""
    objective = policy.objective
    balanced = [name for name in objective.resources if name not in objective.caps]
    fields = {"cpu": "cpu_cores", "memory": "memory_bytes", "network": "network_bytes_per_s"}
    sizes = {
        tuple(getattr(node.capacity, fields[name]) for name in balanced) for node in policy.nodes
    }
    keys = {operator.id: operator.partition_key for operator in policy.operators}
    return MethodConditions(
        has_traffic=bool(policy.edges),
        has_series=True,
        clusters=len({node.cluster for node in policy.nodes}),
        balanced_resources=len(balanced),
        has_equal_nodes=len(sizes) == 1,
        shares_partition_keys=any(keys[e.source] == keys[e.target] for e in policy.edges),
    )


def why_unfit(entry: MethodEntry, job: MethodConditions) -> str | None:
    """Why the method does not fit a job; None if it fits."""
    obstacles = {
        MethodNeed.TRAFFIC: (job.has_traffic, "needs traffic between operators, and there is none"),
        MethodNeed.SERIES: (job.has_series, "needs the load of key groups over time"),
        MethodNeed.CLUSTERS: (
            job.clusters > 1,
            f"maps operators to clusters of nodes, and there are {job.clusters}"
            if job.clusters
            else "maps operators to clusters of nodes, and none are known",
        ),
        MethodNeed.PARTITION_KEYS: (
            job.shares_partition_keys,
            "needs an edge whose two operators have the same partition key",
        ),
        MethodLimit.SEVERAL_RESOURCES: (
            job.balanced_resources == 1,
            f"levels one resource, and {job.balanced_resources} are to be balanced",
        ),
        MethodLimit.UNEQUAL_NODES: (
            job.has_equal_nodes,
            "assumes nodes of the same capacity, and capacities differ",
        ),
    }
    for fact in (*entry.needs, *entry.cannot):
        fits, reason = obstacles.get(fact, (True, ""))
        if not fits:
            return reason
    return None


def method_misfit(policy: JobPolicy) -> MethodMisfit | None:
    """Why ``solver.method`` or ``solver.params`` does not fit the policy; None if they fit."""
    problem = PlanningProblem(policy.objective.kind)
    known, solver = methods_of(problem), policy.solver
    entry = known.get(solver.method)
    if entry is None:
        return MethodMisfit(
            "solver.method",
            f"{solver.method!r} is no method for {problem} plans",
            solver.method,
            ", ".join(known),
            "choose one of these; `ballast methods` explains them",
        )
    reason = why_unfit(entry, conditions_of(policy))
    if reason is not None:
        return MethodMisfit(
            "solver.method", f"{entry.name!r} {reason}", entry.name, None,
            "choose another method; `ballast methods` explains them",
        )  # fmt: skip
    return _parameter_misfit(entry, policy) or _placement_misfit(policy)


def _placement_misfit(policy: JobPolicy) -> MethodMisfit | None:
    name, field = policy.solver.first_placement, "solver.first_placement"
    if name is None:
        return None
    known = methods_of(PlanningProblem.FIRST_PLACEMENT)
    entry = known.get(name)
    if entry is None:
        return MethodMisfit(
            field, f"{name!r} is no first placement", name, ", ".join(known), "choose one of these"
        )
    reason = why_unfit(entry, conditions_of(policy))
    if reason is None:
        return None
    return MethodMisfit(
        field, f"{name!r} {reason}", name, None, "choose another one, or leave it out"
    )


def _parameter_misfit(entry: MethodEntry, policy: JobPolicy) -> MethodMisfit | None:
    for name, value in flat_parameters(policy.solver.params):
        spec = entry.parameter(name)
        if spec is None:
            names = ", ".join(each.name for each in entry.parameters)
            return MethodMisfit(
                f"solver.params.{name}",
                f"is not a parameter of method {entry.name!r}",
                value,
                names or "no parameters",
                "leave it out, or choose one of these",
            )
        if not spec.permits(value):
            return MethodMisfit(
                f"solver.params.{name}", f"is {value!r}", value, spec.allowed,
                f"it is {spec.text}; give an allowed value",
            )  # fmt: skip
    return None
