"""The number of nodes for a load, with nodes of different sizes and nodes that are starting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import ALIVE, DRAINING
from solvers.scale.decision import Need
from solvers.scale.observation import LAUNCHING, NodeSample, Observation
from solvers.scale.policy import Boundaries, Policy

ROUNDING = 1e-9
"""Relative slack, so that 6.5 / 0.65 nodes are ten and not eleven."""
FULL = 0.97
"""A cluster that used this share of its capacity was full; the demand may have been larger."""
LAUNCH_PATIENCE = 2.0
"""A node that has not started after this many times ``launch_s`` no longer counts."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The nodes of a cluster, grouped by their role in scaling."""

    name: str
    staying: tuple[NodeSample, ...]
    coming: tuple[NodeSample, ...]
    draining: tuple[NodeSample, ...]
    overdue: tuple[NodeSample, ...]

    @property
    def count(self) -> int:
        """Nodes that stay or are starting; a decision is compared with this number."""
        return len(self.staying) + len(self.coming)

    def capacities(self, resource: str) -> list[float]:
        nodes = (*self.staying, *self.coming)
        lacking = [n.node_id for n in nodes if resource not in n.capacity]
        if lacking:
            raise InvalidInput(
                f"node {lacking[0]!r} has no {resource} capacity",
                remedy=f"measure {resource} on every node, or scale by another resource",
            )
        return [n.capacity[resource] for n in nodes]

    def load(self, resource: str) -> float:
        """Level of the whole load, including what draining nodes still carry."""
        return sum(n.level(resource) for n in (*self.staying, *self.draining))

    def utilisation(self, resource: str) -> float:
        return self.load(resource) / sum(self.capacities(resource))

    def full_windows(self, resource: str) -> float:
        """Share of the windows in which the cluster as a whole was full."""
        series = [(n.use or {})[resource] for n in self.staying]
        if not series or self.coming:
            return 0.0
        limit = FULL * sum(n.capacity[resource] for n in self.staying)
        length = min(map(len, series))
        together = (sum(s[-i] for s in series) for i in range(1, length + 1))
        return sum(use >= limit for use in together) / length


def cluster_views(observation: Observation, policy: Policy) -> tuple[ClusterView, ...]:
    """A view of each cluster; InvalidInput if one has no node that stays or is starting."""
    views = tuple(_view(observation, name, policy) for name in observation.clusters)
    for view in views:
        if view.count == 0:
            where = f"cluster {view.name!r}" if view.name else "the job"
            raise InvalidInput(
                f"{where} has no node that is alive and not draining",
                remedy="add a node, or take one back from draining",
            )
    return views


def _view(observation: Observation, name: str, policy: Policy) -> ClusterView:
    nodes = [n for n in observation.nodes if n.cluster == name]
    launching = [n for n in nodes if n.state == LAUNCHING]
    coming = tuple(n for n in launching if not _is_overdue(n, observation.at_s, policy))
    return ClusterView(
        name,
        tuple(n for n in nodes if n.state == ALIVE),
        coming,
        tuple(n for n in nodes if n.state == DRAINING),
        tuple(n for n in launching if n not in coming),
    )


def _is_overdue(node: NodeSample, now_s: float, policy: Policy) -> bool:
    allowed_s = LAUNCH_PATIENCE * max(policy.launch_s, policy.interval_s)
    return node.started_at_s is not None and now_s - node.started_at_s > allowed_s


def new_node_capacity(view: ClusterView, resource: str, policy: Policy) -> float:
    """Capacity of an added node: from the policy, or else the mean of the present nodes."""
    if resource in policy.new_node_capacity:
        return policy.new_node_capacity[resource]
    capacities = view.capacities(resource)
    return sum(capacities) / len(capacities)


def nodes_for(required: float, capacities: Sequence[float], new_capacity: float) -> int:
    """The fewest nodes with the required capacity: nodes are added, or the largest removed first.

    Which nodes are removed is decided later, so shrinking assumes the worst case.
    """
    together = sum(capacities)
    if required > together * (1 + ROUNDING):
        return len(capacities) + math.ceil((required - together) / new_capacity * (1 - ROUNDING))
    least = itertools.accumulate(sorted(capacities), initial=0.0)
    enough = (n for n, room in enumerate(least) if room >= required * (1 - ROUNDING))
    return next(enough, len(capacities))


def needs_at(observation: Observation, policy: Policy, boundaries: Boundaries) -> tuple[Need, ...]:
    """For each cluster, the nodes that bring the policy's resource to the boundaries' target."""
    resource = policy.resource
    return tuple(
        Need(
            cluster=view.name,
            nodes=nodes_for(
                view.load(resource) / boundaries.target,
                view.capacities(resource),
                new_node_capacity(view, resource, policy),
            ),
            utilisation=view.utilisation(resource),
            boundaries=boundaries,
            metric=resource,
            saturating=(resource,),
            load=loads_of(view),
        )
        for view in cluster_views(observation, policy)
    )


def loads_of(view: ClusterView) -> Mapping[str, float]:
    """Level of every resource that all nodes of the cluster measure."""
    measured = [set(n.capacity) for n in (*view.staying, *view.draining)]
    shared = sorted(set.intersection(*measured)) if measured else []
    return {resource: view.load(resource) for resource in shared}
