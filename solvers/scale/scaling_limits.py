"""Limits that are common to all scaling policies.

They are: no decision if metrics are missing, hysteresis (nothing happens between the boundaries),
cool-down, stabilisation, minimum benefit, maximum step, minimum and maximum of nodes, and time that
is already paid for. Removing nodes and adding nodes ahead of time may have to wait. Above the upper
boundary nodes are added at once.

Decisions do not flap. They compare the level over the whole time since the last round. So a
swing whose period is close to the scheduling interval cancels out, and is not sampled at changing
phases (aliasing). A load series that covers too little of that time never removes a node. See
ADR 30.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from solvers.model.problem import ALIVE
from solvers.scale.cluster_size import ClusterSize, ScalingContext, percent
from solvers.scale.decision import Need, ScalingAction, ScalingDecision, ScalingHistory
from solvers.scale.observation import HotNode, Observation
from solvers.scale.policy import Policy
from solvers.scale.scale_in import cooling_s, shrink
from solvers.scale.sizing import ClusterView, cluster_views

HELPS = 0.99
"""Another node helps a hot node if it lowers its utilisation by at least one percent."""


def hold_without_metrics(observation: Observation, missing: Sequence[str]) -> ScalingDecision:
    """Hold, and name the sources of the missing metrics: unknown is not zero."""
    counts = _counts(observation)
    names = ", ".join(missing)
    return ScalingDecision(
        ScalingAction.HOLD,
        counts,
        counts,
        reason=f"no scaling, because metrics are missing of {names}",
        binding="missing metrics",
        would_change=f"metrics of {names}",
        missing=tuple(missing),
    )


def hold_for_the_clock(observation: Observation, last_s: float) -> ScalingDecision:
    """Hold, because the statistics period ends before the last one."""
    counts = _counts(observation)
    back_s = last_s - observation.at_s
    return ScalingDecision(
        ScalingAction.HOLD,
        counts,
        counts,
        reason=f"no scaling, because the clock went back by {back_s:.0f} s since the last round",
        binding="clock",
        would_change="a statistics period that ends after the last one",
    )


def _counts(observation: Observation) -> dict[str, int]:
    return {
        name: sum(n.cluster == name and n.state == ALIVE for n in observation.nodes)
        for name in observation.clusters
    }


def decide_within_limits(
    observation: Observation, policy: Policy, history: ScalingHistory, needs: Sequence[Need]
) -> ScalingDecision:
    """The decision by the needs of the policy, within the limits of all policies."""
    views = {view.name: view for view in cluster_views(observation, policy)}
    context = ScalingContext(observation, policy, history)
    sizes = [_cluster_size(need, views[need.cluster], context) for need in needs]
    return _decision(_within_cap(sizes, policy))


def _cluster_size(need: Need, view: ClusterView, context: ScalingContext) -> ClusterSize:
    observation, policy = context.observation, context.policy
    n, bounds = view.count, need.boundaries
    wanted = max(need.nodes, policy.min_nodes)
    if need.utilisation > bounds.upper:
        return _grow(need, n, max(wanted, n + 1), policy, f"above {percent(bounds.upper)}")
    if n < policy.min_nodes:
        return _grow(need, n, policy.min_nodes, policy, f"with fewer than {policy.min_nodes} nodes")
    for resource in need.saturating:
        full = view.full_windows(resource)
        if full > policy.max_full_windows:
            return _full(need, n, max(wanted, n + 1), policy, resource, full)
    hot = observation.hot
    if hot is not None and hot.cluster == view.name and hot.utilisation > bounds.upper:
        return _for_hot_node(need, n, hot)
    if need.ahead is not None and need.ahead > bounds.upper and wanted > n:
        return _ahead(need, n, wanted, context)
    if max(need.utilisation, need.ahead or 0.0) >= bounds.lower:
        return _inside(need, n)
    return shrink(need, view, wanted, context)


def _grow(need: Need, n: int, wanted: int, policy: Policy, where: str) -> ClusterSize:
    largest = _largest_step(n, policy)
    to = min(wanted, largest)
    limited = f", of {wanted} needed by a step of at most {largest - n}" if to < wanted else ""
    return ClusterSize(
        need,
        to,
        n,
        f"{need.metric} is at {percent(need.utilisation)}, {where}{limited}",
        f"{need.metric} at or below {percent(need.boundaries.upper)}",
    )


def _full(
    need: Need, n: int, wanted: int, policy: Policy, resource: str, share: float
) -> ClusterSize:
    """Add nodes because a resource was full: its use may have been limited by the capacity."""
    return ClusterSize(
        need,
        min(wanted, _largest_step(n, policy)),
        n,
        f"{resource} was at its limit in {percent(share)} of the windows",
        f"at most {percent(policy.max_full_windows)} of the windows at the limit",
    )


def _largest_step(n: int, policy: Policy) -> int:
    return n + max(1, math.floor(policy.max_step_out * n))


def _for_hot_node(need: Need, n: int, hot: HotNode) -> ClusterSize:
    """One node is above the boundary, the mean is not: add a node only if balancing cannot help."""
    upper = need.boundaries.upper
    at = f"{hot.resource} of node {hot.node_id} is at {percent(hot.utilisation)}"
    if hot.largest > 1:
        return ClusterSize(
            need,
            n,
            n,
            f"{at}, and no plan can help: key group {hot.largest_key_group} alone needs "
            f"{percent(hot.largest)} of a node, split operator {hot.largest_operator}",
            f"more key groups for operator {hot.largest_operator}",
        )
    if hot.levelled <= upper:
        return ClusterSize(
            need,
            n,
            n,
            f"{at}, which balancing brings to {percent(hot.levelled)} within the next rounds",
            f"a node above {percent(upper)} that balancing alone cannot relieve",
        )
    if hot.with_one_more > hot.levelled * HELPS:
        return ClusterSize(
            need,
            n,
            n,
            f"{at} and another node would not lower that, because key group "
            f"{hot.largest_key_group} of operator {hot.largest_operator} cannot be divided",
            f"more key groups for operator {hot.largest_operator}",
        )
    return ClusterSize(
        need,
        n + 1,
        n,
        f"{at} and balancing alone leaves it at {percent(hot.levelled)}, above {percent(upper)}",
        f"key groups that balancing can bring below {percent(upper)}",
    )


def _ahead(need: Need, n: int, wanted: int, context: ScalingContext) -> ClusterSize:
    """Add nodes for a forecast. Nothing is overloaded yet, so this may wait."""
    policy = context.policy
    still = cooling_s(context)
    if still > 0:
        return ClusterSize(
            need,
            n,
            n,
            f"{need.note}, but the last scaling was too recent",
            f"{still:.0f} s more of cool-down",
        )
    if (wanted - n) / n < policy.min_benefit:
        return ClusterSize(
            need,
            n,
            n,
            f"{need.note}, but {wanted - n} of {n} nodes are below the minimum benefit of "
            f"{percent(policy.min_benefit)}",
            "a forecast that needs more",
        )
    to = min(wanted, _largest_step(n, policy))
    return ClusterSize(
        need,
        to,
        n,
        f"{need.note}, above {percent(need.boundaries.upper)}",
        f"a forecast at or below {percent(need.boundaries.upper)}",
    )


def _inside(need: Need, n: int) -> ClusterSize:
    bounds = need.boundaries
    value = max(need.utilisation, need.ahead or 0.0)
    return ClusterSize(
        need,
        n,
        n,
        f"{need.metric} is at {percent(value)}, between {percent(bounds.lower)} and "
        f"{percent(bounds.upper)}",
        f"{need.metric} above {percent(bounds.upper)} or below {percent(bounds.lower)}",
    )


def _within_cap(sizes: list[ClusterSize], policy: Policy) -> list[ClusterSize]:
    """If all clusters together exceed the cap, the fullest cluster grows first ([DODO, 7.1.1])."""
    if policy.max_nodes is None:
        return sizes
    room = policy.max_nodes - sum(min(size.nodes, size.before) for size in sizes)
    capped: dict[str, ClusterSize] = {}
    for size in sorted(sizes, key=lambda size: (-size.need.utilisation, size.need.cluster)):
        granted = max(0, min(size.nodes - size.before, room))
        room -= granted
        if size.nodes - size.before > granted:
            size = ClusterSize(
                size.need,
                size.before + granted,
                size.before,
                f"{size.why}; {size.nodes} nodes would be needed, and the cap is "
                f"{policy.max_nodes}",
                f"a cap above {policy.max_nodes} nodes",
            )
        capped[size.need.cluster] = size
    return [capped[size.need.cluster] for size in sizes]


def _decision(sizes: list[ClusterSize]) -> ScalingDecision:
    deciding = _deciding(sizes)
    grows = [size for size in sizes if size.nodes > size.before]
    shrinks = [size for size in sizes if size.nodes < size.before]
    action = ScalingAction.OUT if grows else ScalingAction.IN if shrinks else ScalingAction.HOLD
    shown = [*grows, *shrinks] or [deciding]
    parallelism = {k: p for size in sizes for k, p in size.need.parallelism.items()}
    return ScalingDecision(
        action,
        {size.need.cluster: size.before for size in sizes},
        {size.need.cluster: size.nodes for size in sizes},
        reason="; ".join(_sentence(size) for size in shown),
        binding=deciding.need.metric,
        would_change=deciding.would_change,
        needs={size.need.cluster: size.need.nodes for size in sizes},
        utilisation={size.need.cluster: size.need.utilisation for size in sizes},
        loads={size.need.cluster: size.need.load for size in sizes},
        removable=tuple(name for size in shrinks for name in size.removable),
        parallelism=parallelism,
    )


def _deciding(sizes: list[ClusterSize]) -> ClusterSize:
    """The cluster that decides the reason: one that changes first, then the fullest."""
    return max(sizes, key=lambda size: (size.nodes != size.before, size.need.utilisation))


def _sentence(size: ClusterSize) -> str:
    where = f"cluster {size.need.cluster}: " if size.need.cluster else ""
    note = f" ({size.need.note})" if size.need.note and size.need.note not in size.why else ""
    if size.nodes == size.before:
        return f"{where}{size.before} nodes stay, because {size.why}{note}"
    return f"{where}{size.before} nodes become {size.nodes}, because {size.why}{note}"
