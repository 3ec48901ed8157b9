"""Limits that are common to all scaling policies.

They are: no decision if metrics are missing, hysteresis (nothing happens between the boundaries),
cool-down, stabilisation, minimum benefit, maximum step, minimum and maximum of nodes, and time that
is already paid for. Removing nodes and adding nodes ahead of time may have to wait. Above the upper
boundary nodes are added at once.

Decisions do not flap. The guard compares the level over the whole time since the last round. So a
swing whose period is close to the scheduling interval cancels out, and is not sampled at changing
phases (aliasing). A load series that covers too little of that time never removes a node. See
ADR 30.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from solvers.model.problem import ALIVE
from solvers.scale.decision import Need, ScalingAction, ScalingDecision, ScalingHistory
from solvers.scale.observation import HotNode, Observation
from solvers.scale.policy import Policy
from solvers.scale.scale_in import cooling_s, shrink
from solvers.scale.sizing import ClusterView, cluster_views
from solvers.scale.verdict import ScalingContext, ScalingVerdict, percent

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


def judge(
    observation: Observation, policy: Policy, history: ScalingHistory, needs: Sequence[Need]
) -> ScalingDecision:
    """The decision by the needs of the policy, within the limits of the guard."""
    views = {view.name: view for view in cluster_views(observation, policy)}
    context = ScalingContext(observation, policy, history)
    verdicts = [_verdict(need, views[need.cluster], context) for need in needs]
    return _decision(_within_cap(verdicts, policy))


def _verdict(need: Need, view: ClusterView, context: ScalingContext) -> ScalingVerdict:
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


def _grow(need: Need, n: int, wanted: int, policy: Policy, where: str) -> ScalingVerdict:
    largest = _largest_step(n, policy)
    to = min(wanted, largest)
    limited = f", of {wanted} needed by a step of at most {largest - n}" if to < wanted else ""
    return ScalingVerdict(
        need,
        to,
        n,
        f"{need.metric} is at {percent(need.utilisation)}, {where}{limited}",
        f"{need.metric} at or below {percent(need.boundaries.upper)}",
    )


def _full(
    need: Need, n: int, wanted: int, policy: Policy, resource: str, share: float
) -> ScalingVerdict:
    """Add nodes because a resource was full: its use may have been limited by the capacity."""
    return ScalingVerdict(
        need,
        min(wanted, _largest_step(n, policy)),
        n,
        f"{resource} was at its limit in {percent(share)} of the windows",
        f"at most {percent(policy.max_full_windows)} of the windows at the limit",
    )


def _largest_step(n: int, policy: Policy) -> int:
    return n + max(1, math.floor(policy.max_step_out * n))


def _for_hot_node(need: Need, n: int, hot: HotNode) -> ScalingVerdict:
    """One node is above the boundary, the mean is not: add a node only if balancing cannot help."""
    upper = need.boundaries.upper
    at = f"{hot.resource} of node {hot.node_id} is at {percent(hot.utilisation)}"
    if hot.largest > 1:
        return ScalingVerdict(
            need,
            n,
            n,
            f"{at}, and no plan can help: key group {hot.largest_key_group} alone needs "
            f"{percent(hot.largest)} of a node, split operator {hot.largest_operator}",
            f"more key groups for operator {hot.largest_operator}",
        )
    if hot.levelled <= upper:
        return ScalingVerdict(
            need,
            n,
            n,
            f"{at}, which balancing brings to {percent(hot.levelled)} within the next rounds",
            f"a node above {percent(upper)} that balancing alone cannot relieve",
        )
    if hot.with_one_more > hot.levelled * HELPS:
        return ScalingVerdict(
            need,
            n,
            n,
            f"{at} and another node would not lower that, because key group "
            f"{hot.largest_key_group} of operator {hot.largest_operator} cannot be divided",
            f"more key groups for operator {hot.largest_operator}",
        )
    return ScalingVerdict(
        need,
        n + 1,
        n,
        f"{at} and balancing alone leaves it at {percent(hot.levelled)}, above {percent(upper)}",
        f"key groups that balancing can bring below {percent(upper)}",
    )


def _ahead(need: Need, n: int, wanted: int, context: ScalingContext) -> ScalingVerdict:
    """Add nodes for a forecast. Nothing is overloaded yet, so this may wait."""
    policy = context.policy
    still = cooling_s(context)
    if still > 0:
        return ScalingVerdict(
            need,
            n,
            n,
            f"{need.note}, but the last scaling was too recent",
            f"{still:.0f} s more of cool-down",
        )
    if (wanted - n) / n < policy.min_benefit:
        return ScalingVerdict(
            need,
            n,
            n,
            f"{need.note}, but {wanted - n} of {n} nodes are below the minimum benefit of "
            f"{percent(policy.min_benefit)}",
            "a forecast that needs more",
        )
    to = min(wanted, _largest_step(n, policy))
    return ScalingVerdict(
        need,
        to,
        n,
        f"{need.note}, above {percent(need.boundaries.upper)}",
        f"a forecast at or below {percent(need.boundaries.upper)}",
    )


def _inside(need: Need, n: int) -> ScalingVerdict:
    bounds = need.boundaries
    value = max(need.utilisation, need.ahead or 0.0)
    return ScalingVerdict(
        need,
        n,
        n,
        f"{need.metric} is at {percent(value)}, between {percent(bounds.lower)} and "
        f"{percent(bounds.upper)}",
        f"{need.metric} above {percent(bounds.upper)} or below {percent(bounds.lower)}",
    )


def _within_cap(verdicts: list[ScalingVerdict], policy: Policy) -> list[ScalingVerdict]:
    """If all clusters together exceed the cap, the fullest cluster grows first ([DODO, 7.1.1])."""
    if policy.max_nodes is None:
        return verdicts
    room = policy.max_nodes - sum(min(v.nodes, v.before) for v in verdicts)
    capped: dict[str, ScalingVerdict] = {}
    for v in sorted(verdicts, key=lambda v: (-v.need.utilisation, v.need.cluster)):
        granted = max(0, min(v.nodes - v.before, room))
        room -= granted
        if v.nodes - v.before > granted:
            v = ScalingVerdict(
                v.need,
                v.before + granted,
                v.before,
                f"{v.why}; {v.nodes} nodes would be needed, and the cap is {policy.max_nodes}",
                f"a cap above {policy.max_nodes} nodes",
            )
        capped[v.need.cluster] = v
    return [capped[v.need.cluster] for v in verdicts]


def _decision(verdicts: list[ScalingVerdict]) -> ScalingDecision:
    deciding = _deciding(verdicts)
    grows = [v for v in verdicts if v.nodes > v.before]
    shrinks = [v for v in verdicts if v.nodes < v.before]
    action = ScalingAction.OUT if grows else ScalingAction.IN if shrinks else ScalingAction.HOLD
    shown = [*grows, *shrinks] or [deciding]
    parallelism = {k: p for v in verdicts for k, p in v.need.parallelism.items()}
    return ScalingDecision(
        action,
        {v.need.cluster: v.before for v in verdicts},
        {v.need.cluster: v.nodes for v in verdicts},
        reason="; ".join(_sentence(v) for v in shown),
        binding=deciding.need.metric,
        would_change=deciding.would_change,
        needs={v.need.cluster: v.need.nodes for v in verdicts},
        utilisation={v.need.cluster: v.need.utilisation for v in verdicts},
        loads={v.need.cluster: v.need.load for v in verdicts},
        removable=tuple(name for v in shrinks for name in v.removable),
        parallelism=parallelism,
    )


def _deciding(verdicts: list[ScalingVerdict]) -> ScalingVerdict:
    """The cluster that decides the reason: one that changes first, then the fullest."""
    return max(verdicts, key=lambda v: (v.nodes != v.before, v.need.utilisation))


def _sentence(v: ScalingVerdict) -> str:
    where = f"cluster {v.need.cluster}: " if v.need.cluster else ""
    note = f" ({v.need.note})" if v.need.note and v.need.note not in v.why else ""
    if v.nodes == v.before:
        return f"{where}{v.before} nodes stay, because {v.why}{note}"
    return f"{where}{v.before} nodes become {v.nodes}, because {v.why}{note}"
