"""Scaling in: nodes are removed only if there is no objection; the first one is the reason."""

from __future__ import annotations

import math
from collections.abc import Sequence

from solvers.scale.cluster_size import ClusterSize, ScalingContext, percent
from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.observation import NodeSample
from solvers.scale.policy import Policy
from solvers.scale.sizing import ClusterView


def shrink(need: Need, view: ClusterView, wanted: int, context: ScalingContext) -> ClusterSize:
    """Remove nodes of a cluster, or keep them all for the first objection.

    Args:
        need: the need of the cluster; its utilisation is below the lower boundary.
        wanted: nodes that the need asks for, at least ``min_nodes``.
    """
    policy, at_s = context.policy, context.observation.at_s
    n = view.count
    wanted = max(wanted, _largest_recent_need(view.name, context))
    least = n - max(1, math.floor(policy.max_step_in * n))
    to = max(wanted, least, policy.min_nodes)
    free = _unpaid(view.staying, at_s, policy)
    at = f"{need.metric} is at {percent(need.utilisation)}, below {percent(need.boundaries.lower)}"
    for blocked, because, remedy in _objections(need, view, to, len(free), context):
        if blocked:
            return ClusterSize(need, n, n, f"{at}, but {because}", remedy)
    to = max(to, n - len(free))
    return ClusterSize(
        need,
        to,
        n,
        at,
        f"{need.metric} at or above {percent(need.boundaries.lower)}",
        tuple(node.node_id for node in free),
    )


def _objections(
    need: Need, view: ClusterView, to: int, free: int, context: ScalingContext
) -> list[tuple[bool, str, str]]:
    """(whether it applies, reason, what would change it) of each objection."""
    policy = context.policy
    n = view.count
    still = cooling_s(context)
    rounds = _rounds_seen(view.name, context.history) + 1
    coverage = _coverage(context)
    return [
        (not need.may_shrink, need.note or "the policy forbids it", "no backlog"),
        (n <= policy.min_nodes, f"{n} nodes are the minimum", "a smaller min_nodes"),
        (bool(view.coming), "nodes are still launching", "the launch to end"),
        (bool(view.draining), "nodes are still draining", "the drain to end"),
        (
            coverage < policy.min_coverage,
            f"the load series covers only {percent(coverage)} of the time since the last round",
            f"a load series over at least {percent(policy.min_coverage)} of it",
        ),
        (
            rounds < policy.stabilisation_rounds,
            f"{policy.stabilisation_rounds} rounds must have been seen, and {rounds} were",
            f"{policy.stabilisation_rounds - rounds} more rounds like this one",
        ),
        (still > 0, "the last scaling was too recent", f"{still:.0f} s more of cool-down"),
        (
            to >= n,
            f"{n} nodes were needed within the last {policy.stabilisation_rounds} rounds",
            "a lower load in all of them",
        ),
        (
            (n - to) / n < policy.min_benefit,
            f"{n - to} of {n} nodes are below the {percent(policy.min_benefit)} it must gain",
            "a load that needs fewer nodes",
        ),
        (free == 0, "every node is paid for beyond the next round", "the paid time to end"),
    ]


def _largest_recent_need(cluster: str, context: ScalingContext) -> int:
    rounds, count = context.history.rounds, context.policy.stabilisation_rounds
    recent = rounds[len(rounds) - count + 1 :] if count > 1 else ()
    return max((r.needs.get(cluster, 0) for r in recent), default=0)


def _rounds_seen(cluster: str, history: ScalingHistory) -> int:
    return sum(cluster in r.needs for r in history.rounds)


def cooling_s(context: ScalingContext) -> float:
    """Seconds of cool-down that are left; 0 if scaling that can wait may happen now."""
    policy = context.policy
    last = context.history.last_action_at_s()
    if last is None:
        return 0.0
    settled_s = max(policy.cool_down_s, policy.launch_s, policy.shutdown_s)
    return max(0.0, settled_s - (context.observation.at_s - last))


def _coverage(context: ScalingContext) -> float:
    """Share of the time since the last round that the shortest load series covers."""
    observation, policy = context.observation, context.policy
    last = context.history.last
    gap = observation.at_s - last.at_s if last is not None else policy.interval_s
    return 1.0 if gap <= 0 else min(1.0, observation.covered_s / min(gap, policy.interval_s))


def _unpaid(nodes: Sequence[NodeSample], now_s: float, policy: Policy) -> list[NodeSample]:
    """Nodes whose next billing period begins before the next round; others are paid for already."""
    if policy.billing_s is None:
        return list(nodes)
    leaving_s = policy.interval_s + policy.shutdown_s
    return [
        node
        for node in nodes
        if node.started_at_s is None
        or policy.billing_s - (now_s - node.started_at_s) % policy.billing_s <= leaving_s
    ]
