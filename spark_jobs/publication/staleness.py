"""Why a plan that waited may no longer be published: another head, lost nodes, moved load. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ballast.contracts.problem_columns import RESOURCES, key_group_names
from ballast.contracts.records import Draft, Head, ScalingRow, WorkerWeight
from ballast.contracts.scaling import ALIVE, DRAINING, KEEP, node_actions, scaled
from solvers.model.rules import rules_of_policy
from spark_jobs.publication.current_state import CurrentState, NodeState
from spark_jobs.publication.region_workers import weight_conflicts

SHOWN_NODES = 6


@dataclass(frozen=True)
class UnusableNode:
    """Why no key group may be placed on a node, and the state that the node has for a problem."""

    state: str
    why: str


@dataclass(frozen=True)
class ComparedContent:
    """The stored rows of a plan that its staleness depends on."""

    assignment: pa.Table
    scaling: Sequence[ScalingRow]
    weights: Sequence[WorkerWeight]


def stale_reasons(draft: Draft, content: ComparedContent, state: CurrentState) -> list[str]:
    """Everything that has changed too much since the draft's snapshot; empty if nothing has."""
    drains = _drains_of_plan(content, state)
    unusable = {
        node: reason
        for node, reason in unusable_nodes(state.nodes).items()
        if reason.state != DRAINING or node not in drains
    }
    return [
        *_other_head(draft, state.head),
        *_unusable_nodes_in_use(content.assignment["node_id"].to_pylist(), unusable),
        *_moved_load(state),
        *_changed_rules(state.nodes),
        *weight_conflicts(state.nodes.policy, content.weights, state.dead_workers),
    ]


def unusable_nodes(nodes: NodeState) -> dict[str, UnusableNode]:
    """Nodes that no key group may be placed on: by policy, newest snapshot and metrics."""
    return {
        **_removed_by_policy(nodes),
        **_not_alive_in_newest_snapshot(nodes),
        **_silent_nodes(nodes),
    }


def load_moved_pct(before: pa.Table, after: pa.Table, resources: Sequence[str]) -> float:
    """Sum of the changes of key groups' loads, in percent of all load before; worst resource.

    A load that is known on one side only counts as moved.
    """
    return max(_moved_pct(_loads(before, name), _loads(after, name)) for name in resources)


def _drains_of_plan(content: ComparedContent, state: CurrentState) -> set[str]:
    """Nodes that were draining when the plan was made, and that the plan takes care of.

    A drain takes several rounds. What is left on a draining node does not make a plan stale if
    the plan moves nothing there. A plan may also keep a node, unless today's policy drains it.
    """
    drained = {node.node_id for node in state.snapshot_nodes if node.state == DRAINING}
    columns = (content.assignment[name].to_pylist() for name in ("previous_node_id", "node_id"))
    moved_to = {now for was, now in zip(*columns, strict=True) if now != was}
    today = {node.id: node for node in state.nodes.policy.nodes}
    actions = node_actions(scaled(content.scaling))
    return {
        node
        for node in drained & today.keys()
        if node not in moved_to or (actions.get(node) == KEEP and not today[node].draining)
    }


def _unusable_nodes_in_use(used: Iterable[str], unusable: Mapping[str, UnusableNode]) -> list[str]:
    """A reason for each unusable node that the plan uses; the first few, and a count."""
    reasons = [f"node {node} {unusable[node].why}" for node in sorted({*used} & unusable.keys())]
    more = len(reasons) - SHOWN_NODES
    return reasons[:SHOWN_NODES] + ([f"{more} more nodes cannot be used"] if more > 0 else [])


def _removed_by_policy(nodes: NodeState) -> dict[str, UnusableNode]:
    """Nodes that today's policy drains or no longer has."""
    today = {node.id for node in nodes.policy.nodes}
    draining = {
        node.id: UnusableNode(DRAINING, "is draining by the policy")
        for node in nodes.policy.nodes
        if node.draining
    }
    return draining | {
        node.id: UnusableNode(DRAINING, "is no longer in the policy")
        for node in nodes.policy_then.nodes
        if node.id not in today
    }


def _not_alive_in_newest_snapshot(nodes: NodeState) -> dict[str, UnusableNode]:
    at = f"{nodes.newest.created_at:%Y-%m-%d %H:%M} UTC"
    return {
        node.node_id: UnusableNode(node.state, f"was {node.state} at {at}")
        for node in nodes.newest_nodes
        if node.state != ALIVE
    }


def _silent_nodes(nodes: NodeState) -> dict[str, UnusableNode]:
    """Nodes in use that sent no metrics for as long as a dead node.

    A node may have died before the next gate reads the metrics. Only nodes in use send metrics: a
    spare node, also one that the plan adds, has not started yet.
    """
    begin = nodes.watched_since
    newest = max(nodes.last_seen.values(), default=begin)
    last = {node: nodes.last_seen.get(node, begin) for node in nodes.in_use}
    return {
        node: UnusableNode("dead", f"is silent since {end:%Y-%m-%d %H:%M:%S} UTC")
        for node, end in last.items()
        if newest > begin and newest - end >= nodes.dead_after
    }


def _other_head(draft: Draft, head: Head | None) -> list[str]:
    version = head.version if head else 0
    if version == draft.parent_version:
        return []
    in_force = f"version {version}, plan {head.plan_id}," if head else "no version"
    return [f"it was made against version {draft.parent_version}, and {in_force} is in force now"]


def _moved_load(state: CurrentState) -> list[str]:
    if state.loads is None:
        return []
    policy = state.nodes.policy_then
    limit = policy.review.stale.load_moved_pct
    moved = load_moved_pct(state.loads.before, state.loads.after, policy.objective.resources)
    if moved <= limit:
        return []
    at = f"{state.nodes.newest.created_at:%Y-%m-%d %H:%M} UTC"
    return [
        f"the load has moved by {moved:.1f} % by {at} (review.stale.load_moved_pct is {limit:g})"
    ]


def _changed_rules(nodes: NodeState) -> list[str]:
    """The plan was made and verified with the rules of its snapshot."""
    if rules_of_policy(nodes.policy) == rules_of_policy(nodes.policy_then):
        return []
    return ["the rules of the policy, or the labels of nodes that they ask for, have changed"]


def _moved_pct(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    total = sum(before.values())
    changed = sum(
        abs(after.get(name, 0.0) - before.get(name, 0.0)) for name in before.keys() | after.keys()
    )
    if total <= 0:
        return 0.0 if changed <= 0 else 100.0
    return 100.0 * changed / total


def _loads(key_groups: pa.Table, resource: str) -> dict[str, float]:
    names = key_group_names(key_groups["operator_id"], key_groups["key_group"]).to_pylist()
    return dict(zip(names, key_groups[RESOURCES[resource].load].to_pylist(), strict=True))
