"""Reads what a draft's staleness depends on: head, policy, nodes, loads and workers as of now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head, Snapshot, SnapshotNode
from ballast.contracts.regions import DEAD
from ballast.contracts.scaling import nodes_in_use, scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import read_head, read_scaling
from ballast.store.policies import current_policy
from ballast.store.snapshots import newest_snapshot
from ballast.store.tables import read_rows, table_exists

CONNECTIONS = "metrics.connections"
NODES = "metrics.nodes"

DeadWorkers = Mapping[tuple[str, str], datetime]
"""Region and worker of each dead worker, and the end of the window that reported the death."""


@dataclass(frozen=True)
class NodeState:
    """What is known of a job's nodes now."""

    policy_then: JobPolicy
    """The policy of the snapshot that the state is compared with."""
    policy: JobPolicy
    """Today's policy."""
    newest: Snapshot
    """The newest snapshot of the job."""
    newest_nodes: tuple[SnapshotNode, ...]
    """The nodes of the newest snapshot."""
    in_use: Collection[str]
    """Nodes in use under the plan that the snapshot's newest window ran under."""
    watched_since: datetime
    """Windows that ended after this time were read."""
    last_seen: Mapping[str, datetime]
    """End of the newest window of each node that sent metrics since then."""

    @property
    def dead_after(self) -> timedelta:
        """A node that is silent for this long is dead."""
        return dead_after(self.policy_then)


@dataclass(frozen=True)
class NewerLoads:
    """Rows of ``snapshots.key_groups`` of the draft's snapshot and of a newer one."""

    before: pa.Table
    after: pa.Table


@dataclass(frozen=True)
class CurrentState:
    """Everything that is compared with a draft that waited."""

    head: Head | None
    nodes: NodeState
    snapshot_nodes: tuple[SnapshotNode, ...]
    """The nodes of the draft's own snapshot."""
    loads: NewerLoads | None
    """None if no snapshot is newer than the draft's."""
    dead_workers: DeadWorkers


def read_current_state(settings: Settings, policy: JobPolicy, snapshot: Snapshot) -> CurrentState:
    """Read the job's state now, to compare it with a snapshot and its policy."""
    nodes = read_node_state(settings, policy, snapshot)
    return CurrentState(
        head=read_head(settings, policy.job),
        nodes=nodes,
        snapshot_nodes=_nodes_of(settings, snapshot),
        loads=_newer_loads(settings, snapshot, nodes.newest),
        dead_workers=dead_workers(settings, policy.job, snapshot.period_start_at),
    )


def read_node_state(settings: Settings, policy: JobPolicy, snapshot: Snapshot) -> NodeState:
    """Read what is known of the job's nodes now, to compare it with a snapshot and its policy."""
    newest = newest_snapshot(settings, policy.job) or snapshot
    begin = snapshot.period_end_at - dead_after(policy)
    return NodeState(
        policy_then=policy,
        policy=current_policy(settings, policy),
        newest=newest,
        newest_nodes=_nodes_of(settings, newest),
        in_use=_nodes_in_use(settings, policy, snapshot),
        watched_since=begin,
        last_seen=_last_seen(settings, policy.job, begin),
    )


def dead_workers(settings: Settings, job: str, since: datetime) -> DeadWorkers:
    """Workers of ordered regions whose newest row since a time has the state dead."""
    if not table_exists(settings, CONNECTIONS):
        return {}
    rows = read_rows(
        settings, CONNECTIONS, job=job,
        columns=["region_id", "worker_id", "window_end_at", "state"],
        where=[("window_date", ">=", since.date()), ("window_end_at", ">", since)],
    )  # fmt: skip
    newest = {
        (row["region_id"], row["worker_id"]): row
        for row in sorted(rows.to_pylist(), key=lambda row: row["window_end_at"])
    }
    return {name: row["window_end_at"] for name, row in newest.items() if row["state"] == DEAD}


def dead_after(policy: JobPolicy) -> timedelta:
    """A node that is silent for this long is dead."""
    return timedelta(seconds=policy.window_s) * policy.dead_after_windows


def _nodes_of(settings: Settings, snapshot: Snapshot) -> tuple[SnapshotNode, ...]:
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    rows = read_rows(settings, "snapshots.nodes", job=snapshot.job, where=where)
    return tuple(SnapshotNode.from_row(row) for row in rows.to_pylist())


def _nodes_in_use(settings: Settings, policy: JobPolicy, snapshot: Snapshot) -> Collection[str]:
    plan_id = snapshot.applied_plan_id
    rows = read_scaling(settings, policy.job, plan_id) if plan_id else []
    return tuple(nodes_in_use(policy, scaled(rows)))


def _last_seen(settings: Settings, job: str, begin: datetime) -> dict[str, datetime]:
    if not table_exists(settings, NODES):
        return {}
    rows = read_rows(
        settings, NODES, job=job, columns=["node_id", "window_end_at"],
        where=[("window_date", ">=", begin.date()), ("window_end_at", ">", begin)],
    )  # fmt: skip
    by_node = rows.group_by("node_id").aggregate([("window_end_at", "max")]).to_pylist()
    return {row["node_id"]: row["window_end_at_max"] for row in by_node}


def _newer_loads(settings: Settings, snapshot: Snapshot, newest: Snapshot) -> NewerLoads | None:
    if newest.created_at <= snapshot.created_at:
        return None
    return NewerLoads(_loads_of(settings, snapshot), _loads_of(settings, newest))


def _loads_of(settings: Settings, snapshot: Snapshot) -> pa.Table:
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    return read_rows(settings, "snapshots.key_groups", job=snapshot.job, where=where)
