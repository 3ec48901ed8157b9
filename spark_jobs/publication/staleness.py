"""Why a plan that waited may no longer be published: another head, lost nodes, moved load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from ballast.contracts.errors import PolicyError
from ballast.contracts.policy import JobPolicy, load_policy, policy_from_json
from ballast.contracts.scaling import ALIVE, DRAINING, KEEP, node_actions, nodes_in_use, scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import read_head, read_scaling
from ballast.store.snapshots import RESOURCES, key_group_names, newest_snapshot
from ballast.store.tables import read_rows, table_exists
from spark_jobs.draft.lookup import read_content
from spark_jobs.draft.problem import Row
from spark_jobs.publication.region_workers import why_weights_do_not_fit

SHOWN_NODES = 6


@dataclass(frozen=True)
class UnusableNode:
    """Why nothing may be placed on a node any more, and what it is to a problem."""

    state: str
    why: str


def why_stale(settings: Settings, snapshot: Row, draft: Row) -> list[str]:
    """Everything that has changed too much since the draft's snapshot; empty: it is as it was."""
    policy = policy_from_json(snapshot["policy_json"])
    content, _, scaling, weights = read_content(settings, draft)
    used = set(content["node_id"].to_pylist())
    known = _drains_of_plan(settings, policy, snapshot, content, scaling)
    lost = {
        node: of
        for node, of in unusable_nodes(settings, policy, snapshot).items()
        if of.state != DRAINING or node not in known
    }
    return [
        *_other_head(settings, draft),
        *_in_words(used, lost),
        *_moved_load(settings, policy, snapshot),
        *why_weights_do_not_fit(
            settings, current_policy(settings, policy), weights, snapshot["period_start_at"]
        ),
    ]


def unusable_nodes(settings: Settings, policy: JobPolicy, since: Row) -> dict[str, UnusableNode]:
    """Nodes that nothing may be placed on any more: by metrics, newest snapshot and policy."""
    return {
        **gone_by_policy(settings, policy),
        **_bad_in_newest_snapshot(settings, policy.job, since),
        **_silent_nodes(settings, policy, since),
    }


def _drains_of_plan(
    settings: Settings, policy: JobPolicy, snapshot: Row, content: pa.Table, scaling: Sequence[Row]
) -> set[str]:
    """Nodes that drained already when the plan was made, and that it deals with.

    A drain takes rounds: what a node still has is no reason against a plan that moves nothing
    there. A plan may also take a node back, unless today's policy drains it.
    """
    rows = _nodes_of(settings, snapshot)
    drained = {row["node_id"] for row in rows if row["state"] == DRAINING}
    columns = (content[name].to_pylist() for name in ("previous_node_id", "node_id"))
    moved_to = {now for was, now in zip(*columns, strict=True) if now != was}
    today = {node.id: node for node in current_policy(settings, policy).nodes}
    actions = node_actions(scaled(scaling))
    return {
        node
        for node in drained & today.keys()
        if node not in moved_to or (actions.get(node) == KEEP and not today[node].draining)
    }


def _in_words(used: Iterable[str], lost: Mapping[str, UnusableNode]) -> list[str]:
    """What to say where a plan uses nodes that it may not."""
    found = [f"node {node} {lost[node].why}" for node in sorted(used) if node in lost]
    more = len(found) - SHOWN_NODES
    return found[:SHOWN_NODES] + ([f"{more} more nodes cannot be used"] if more > 0 else [])


def current_policy(settings: Settings, otherwise: JobPolicy) -> JobPolicy:
    """The job's policy as it is today; one that cannot be read leaves the one that was."""
    try:
        return load_policy(settings.policies / f"{otherwise.job}.yaml")
    except PolicyError:
        return otherwise


def gone_by_policy(settings: Settings, was: JobPolicy) -> dict[str, UnusableNode]:
    """Nodes that today's policy drains or no longer has."""
    today = current_policy(settings, was)
    kept = {node.id for node in today.nodes}
    draining = {
        node.id: UnusableNode("draining", "is draining by the policy")
        for node in today.nodes
        if node.draining
    }
    return draining | {
        node.id: UnusableNode("draining", "is no longer in the policy")
        for node in was.nodes
        if node.id not in kept
    }


def load_moved_pct(before: pa.Table, after: pa.Table, resources: Sequence[str]) -> float:
    """Sum of the changes of key groups' loads, in percent of all load before; worst resource.

    Loads that are not known on both sides count as moved.
    """
    return max(_moved(_loads(before, name), _loads(after, name)) for name in resources)


def _moved(before: Mapping[str, float], after: Mapping[str, float]) -> float:
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


def _other_head(settings: Settings, draft: Row) -> list[str]:
    head = read_head(settings, draft["job"])
    version = head.version if head else 0
    if version == draft["parent_version"]:
        return []
    named = f"version {version}, plan {head.plan_id}," if head else "no version"
    return [f"it was made against version {draft['parent_version']}, and {named} is in force now"]


def _newer_snapshot(settings: Settings, job: str, since: Row) -> Row | None:
    newest = newest_snapshot(settings, job)
    if newest is None or newest["created_at"] <= since["created_at"]:
        return None
    return newest


def _bad_in_newest_snapshot(settings: Settings, job: str, since: Row) -> dict[str, UnusableNode]:
    newest = newest_snapshot(settings, job) or since
    at = f"{newest['created_at']:%Y-%m-%d %H:%M} UTC"
    return {
        row["node_id"]: UnusableNode(row["state"], f"was {row['state']} at {at}")
        for row in _nodes_of(settings, newest)
        if row["state"] != ALIVE
    }


def _nodes_of(settings: Settings, snapshot: Row) -> list[Row]:
    where = [("snapshot_id", "=", snapshot["snapshot_id"])]
    rows = read_rows(settings, "snapshots.nodes", job=snapshot["job"], where=where)
    return list(rows.to_pylist())


def _silent_nodes(settings: Settings, policy: JobPolicy, since: Row) -> dict[str, UnusableNode]:
    """Nodes that said nothing for as long as a dead one: before any gate has looked, a node may
    have died. Only nodes in use speak: a spare, also one that the plan adds, has not begun to."""
    if not table_exists(settings, "metrics.nodes"):
        return {}
    reach = timedelta(seconds=policy.window_s) * policy.dead_after_windows
    begin = since["period_end_at"] - reach
    seen = _last_seen(settings, policy.job, begin)
    newest = max(seen.values(), default=begin)
    last = {node: seen.get(node, begin) for node in _in_use(settings, policy, since)}
    return {
        node: UnusableNode("dead", f"is silent since {end:%Y-%m-%d %H:%M:%S} UTC")
        for node, end in last.items()
        if newest > begin and newest - end >= reach
    }


def _in_use(settings: Settings, policy: JobPolicy, snapshot: Row) -> Iterable[str]:
    """Nodes in use under the plan that the snapshot's newest window ran under."""
    plan_id = snapshot.get("applied_plan_id")
    rows = read_scaling(settings, policy.job, plan_id) if plan_id else []
    return nodes_in_use(policy, scaled(rows))


def _last_seen(settings: Settings, job: str, begin: datetime) -> dict[str, datetime]:
    rows = read_rows(
        settings, "metrics.nodes", job=job, columns=["node_id", "window_end_at"],
        where=[("window_date", ">=", begin.date()), ("window_end_at", ">", begin)],
    )  # fmt: skip
    by_node = rows.group_by("node_id").aggregate([("window_end_at", "max")]).to_pylist()
    return {row["node_id"]: row["window_end_at_max"] for row in by_node}


def _moved_load(settings: Settings, policy: JobPolicy, snapshot: Row) -> list[str]:
    newest = _newer_snapshot(settings, policy.job, snapshot)
    if newest is None:
        return []
    before, after = (
        read_rows(settings, "snapshots.key_groups", job=policy.job,
                  where=[("snapshot_id", "=", row["snapshot_id"])])
        for row in (snapshot, newest)
    )  # fmt: skip
    limit = policy.review.stale.load_moved_pct
    moved = load_moved_pct(before, after, policy.objective.resources)
    if moved <= limit:
        return []
    at = f"{newest['created_at']:%Y-%m-%d %H:%M} UTC"
    return [
        f"the load has moved by {moved:.1f} % by {at} (review.stale.load_moved_pct is {limit:g})"
    ]
