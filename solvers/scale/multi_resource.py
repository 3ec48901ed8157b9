"""Scaling by several resources: the resource that needs the most nodes decides.

A cluster grows if a resource is above its upper boundary, and shrinks if every resource is below
its lower one. Utilisations are made comparable by dividing them by their upper boundaries.
"""

from __future__ import annotations

from ballast.contracts.errors import InvalidInput
from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.observation import Observation
from solvers.scale.policy import Boundaries, Policy
from solvers.scale.sizing import (
    ClusterView,
    cluster_views,
    loads_of,
    new_node_capacity,
    nodes_for,
)

NAME = "multi_resource"


def needs(observation: Observation, policy: Policy, history: ScalingHistory) -> tuple[Need, ...]:  # noqa: ARG001
    """For each cluster, the need of its binding resource."""
    return tuple(binding_need(view, policy) for view in cluster_views(observation, policy))


def binding_need(view: ClusterView, policy: Policy) -> Need:
    """The need of the resource that needs the most nodes; of equal ones, the fullest."""
    loads = loads_of(view)
    if not loads:
        raise InvalidInput(f"the nodes of cluster {view.name!r} share no measured resource")
    candidates = [need_of(view, resource, load, policy) for resource, load in loads.items()]
    binding = max(candidates, key=lambda need: (need.nodes, _pressure(need)))
    fullest = max(candidates, key=_pressure)
    others = ", ".join(
        f"{n.metric} {n.utilisation:.2f} needs {n.nodes}" for n in candidates if n is not binding
    )
    return Need(
        cluster=view.name,
        nodes=binding.nodes,
        # The fullest resource may not be the one that needs the most nodes, because new nodes may
        # have more of it. Comparing the fullest keeps every resource within its own boundaries.
        utilisation=_pressure(fullest) * binding.boundaries.upper,
        boundaries=_tightest(candidates, binding),
        metric=binding.metric,
        saturating=tuple(loads),
        note=f"other resources: {others}" if others else "",
        load=loads,
    )


def need_of(view: ClusterView, resource: str, load: float, policy: Policy) -> Need:
    """The need of one resource alone."""
    boundaries = policy.boundaries_of(resource)
    capacities = view.capacities(resource)
    return Need(
        cluster=view.name,
        nodes=nodes_for(
            load / boundaries.target, capacities, new_node_capacity(view, resource, policy)
        ),
        utilisation=load / sum(capacities),
        boundaries=boundaries,
        metric=resource,
    )


def _pressure(need: Need) -> float:
    return need.utilisation / need.boundaries.upper


def _tightest(candidates: list[Need], binding: Need) -> Boundaries:
    """Boundaries of the binding resource, with a lower one below which every resource is low."""
    upper = binding.boundaries.upper
    lower = min(n.boundaries.lower / n.boundaries.upper for n in candidates) * upper
    return Boundaries(lower=lower, target=binding.boundaries.target, upper=upper)
