"""Letting nodes go: only if nothing at all speaks against it, and the first objection is said."""

from __future__ import annotations

import math
from collections.abc import Sequence

from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.observation import NodeSample, Observation
from solvers.scale.policy import Policy
from solvers.scale.sizing import ClusterView
from solvers.scale.verdict import ScalingVerdict, percent


def shrink(
    need: Need,
    view: ClusterView,
    wanted: int,
    observation: Observation,
    policy: Policy,
    history: ScalingHistory,
) -> ScalingVerdict:
    """Let nodes go only if nothing at all speaks against it."""
    n = view.count
    wanted = max(wanted, _largest_recent_need(view.name, policy, history))
    least = n - max(1, math.floor(policy.max_step_in * n))
    to = max(wanted, least, policy.min_nodes)
    free = _unpaid(view.staying, observation.at_s, policy)
    at = f"{need.metric} is at {percent(need.utilisation)}, below {percent(need.boundaries.lower)}"
    for blocked, because, remedy in _objections(
        need, view, to, observation, policy, history, len(free)
    ):
        if blocked:
            return ScalingVerdict(need, n, n, f"{at}, but {because}", remedy)
    to = max(to, n - len(free))
    return ScalingVerdict(
        need,
        to,
        n,
        at,
        f"{need.metric} at or above {percent(need.boundaries.lower)}",
        tuple(node.node_id for node in free),
    )


def _objections(
    need: Need,
    view: ClusterView,
    to: int,
    observation: Observation,
    policy: Policy,
    history: ScalingHistory,
    free: int,
) -> list[tuple[bool, str, str]]:
    n = view.count
    still = cooling_s(observation, policy, history)
    rounds = _rounds_seen(view.name, history) + 1
    coverage = _coverage(observation, policy, history)
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


def _largest_recent_need(cluster: str, policy: Policy, history: ScalingHistory) -> int:
    recent = history.rounds[len(history.rounds) - policy.stabilisation_rounds + 1 :]
    recent = recent if policy.stabilisation_rounds > 1 else ()
    return max((r.needs.get(cluster, 0) for r in recent), default=0)


def _rounds_seen(cluster: str, history: ScalingHistory) -> int:
    return sum(cluster in r.needs for r in history.rounds)


def cooling_s(observation: Observation, policy: Policy, history: ScalingHistory) -> float:
    """Seconds left until something that can wait may happen again."""
    last = history.last_action_at_s()
    if last is None:
        return 0.0
    settled_s = max(policy.cool_down_s, policy.launch_s, policy.shutdown_s)
    return max(0.0, settled_s - (observation.at_s - last))


def _coverage(observation: Observation, policy: Policy, history: ScalingHistory) -> float:
    """Share of the time since the last round that the shortest series covers."""
    last = history.last
    gap = observation.at_s - last.at_s if last is not None else policy.interval_s
    return 1.0 if gap <= 0 else min(1.0, observation.covered_s / min(gap, policy.interval_s))


def _unpaid(nodes: Sequence[NodeSample], now_s: float, policy: Policy) -> list[NodeSample]:
    """Nodes that would be paid anew before the next round: the others cost nothing to keep."""
    if policy.billing_s is None:
        return list(nodes)
    leaving_s = policy.interval_s + policy.shutdown_s
    return [
        node
        for node in nodes
        if node.started_at_s is None
        or policy.billing_s - (now_s - node.started_at_s) % policy.billing_s <= leaving_s
    ]
