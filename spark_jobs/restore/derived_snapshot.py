"""Derive the snapshot of a rollback from the newest snapshot of the job.

Loads are those of the newest snapshot. The placement is that of the plan that the job has applied
since. The usable nodes come from today's policy and metrics. The derived snapshot is stored for the
run of the rollback, so that a rollback is a plan like any other: verified, measured and reviewed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ballast.contracts.identity import snapshot_id as identity_of_snapshot
from ballast.contracts.identity import split_key_group_name
from ballast.contracts.log_events import ACK_APPLIED, ACK_PROGRESS
from ballast.contracts.policy import JobPolicy, policy_from_json
from ballast.contracts.records import Ack, Head, Snapshot
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_assignment
from ballast.store.policies import current_policy
from ballast.store.snapshots import snapshot_of_run
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append_once, read_rows
from spark_jobs.program.run import progress
from spark_jobs.publication.current_state import read_node_state
from spark_jobs.publication.staleness import UnusableNode, unusable_nodes
from spark_jobs.restore.lookup import source_snapshot

SNAPSHOTS = "snapshots.snapshots"
WRITTEN = (
    "snapshots.key_groups", "snapshots.nodes", "snapshots.traffic", "snapshots.noise",
    "snapshots.key_pairs", "snapshots.connections", SNAPSHOTS,
)  # fmt: skip
NodeOfKeyGroup = dict[tuple[str, int], str]


def derived_snapshot(settings: Settings, job: str, run_id: str, head: Head) -> Snapshot:
    """The snapshot of the run. A new one is derived from the newest snapshot of the job."""
    found = snapshot_of_run(settings, job, run_id)
    if found is not None:
        return found
    source = source_snapshot(settings, job)
    # A warehouse of an earlier version may lack columns that are written here.
    ensure_tables(settings, WRITTEN)
    return _derive(settings, source, run_id, head)


def _derive(settings: Settings, source: Snapshot, run_id: str, head: Head) -> Snapshot:
    job = source.job
    measured_policy = policy_from_json(source.policy_json)
    policy = current_policy(settings, measured_policy)
    pins = ["derived from", source.snapshot_id, f"version {head.version}", policy.to_json()]
    new_id = identity_of_snapshot(job, run_id, pins)
    for name, rows in _details(settings, measured_policy, source, head).items():
        renamed = _replaced(rows, "snapshot_id", [new_id] * rows.num_rows)
        if rows.num_rows:
            append_once(settings, name, renamed, app_id=f"{name}:{new_id}", app_version=1)
    derived = replace(
        source,
        snapshot_id=new_id,
        run_id=run_id,
        head_version=head.version,
        head_plan_id=head.plan_id,
        policy_json=policy.to_json(),
        created_at=datetime.now(UTC),
    )
    app_id = f"{SNAPSHOTS}:{job}:{run_id}"
    append_once(settings, SNAPSHOTS, [derived.to_row()], app_id=app_id, app_version=1)
    progress.info("nodes and loads of snapshot %s, taken %s", source.snapshot_id, source.created_at)
    # Another attempt may have written the snapshot of the run first.
    return snapshot_of_run(settings, job, run_id) or derived


def _details(
    settings: Settings, policy: JobPolicy, source: Snapshot, head: Head
) -> dict[str, pa.Table]:
    names = ["snapshots.traffic", "snapshots.noise"]
    if source.key_pairs_table_version is not None:
        names.append("snapshots.key_pairs")
    if source.connections_table_version is not None:
        names.append("snapshots.connections")
    key_groups = read_part(settings, "snapshots.key_groups", source)
    nodes = read_part(settings, "snapshots.nodes", source)
    return {
        "snapshots.key_groups": _placed(key_groups, placement_now(settings, source, head)),
        "snapshots.nodes": _with_states(
            nodes, unusable_nodes(read_node_state(settings, policy, source))
        ),
        **{name: read_part(settings, name, source) for name in names},
    }


def placement_now(settings: Settings, source: Snapshot, head: Head) -> NodeOfKeyGroup:
    """Nodes of key groups by what the job acknowledged after the snapshot.

    Empty if the snapshot has the placement of today. A head that the job has not applied does not
    count, but the steps of it do that the job has made.
    """
    acks = read_acks(settings, head.job)
    of_head = [ack for ack in acks if ack.version == head.version]
    if of_head and of_head[-1].status == ACK_APPLIED:
        if source.head_version >= head.version and of_head[-1].acked_at <= source.created_at:
            return {}
        return _assigned(settings, head.job, head.plan_id)
    placement: NodeOfKeyGroup = {}
    for ack in acks:
        # What the job did before the end of the snapshot's period shows in its windows.
        if ack.acked_at > source.period_end_at and ack.status in (ACK_PROGRESS, ACK_APPLIED):
            placement |= _moved_by(ack, _assigned(settings, head.job, ack.plan_id))
    return placement


def _moved_by(ack: Ack, assigned: NodeOfKeyGroup) -> NodeOfKeyGroup:
    """The key groups that are where a plan has them after a step, or after all of them."""
    if ack.status == ACK_APPLIED:
        return assigned
    names = (split_key_group_name(name) for name in ack.moved or ())
    return {name: assigned[name] for name in names if name in assigned}


def _assigned(settings: Settings, job: str, plan_id: str) -> NodeOfKeyGroup:
    rows = read_assignment(settings, job, plan_id)
    return {(row.operator_id, row.key_group): row.node_id for row in rows}


def read_part(settings: Settings, name: str, source: Snapshot) -> pa.Table:
    """The rows of a snapshot in a table."""
    where = [("snapshot_id", "=", source.snapshot_id)]
    return read_rows(settings, name, job=source.job, where=where)


def _placed(key_groups: pa.Table, placement: NodeOfKeyGroup) -> pa.Table:
    if not placement:
        return key_groups
    keys = zip(*(key_groups[c].to_pylist() for c in ("operator_id", "key_group")), strict=True)
    nodes = key_groups["node_id"].to_pylist()
    now = [placement.get(key, node) for key, node in zip(keys, nodes, strict=True)]
    return _replaced(key_groups, "node_id", now)


def _with_states(nodes: pa.Table, lost: Mapping[str, UnusableNode]) -> pa.Table:
    pairs = zip(nodes["node_id"].to_pylist(), nodes["state"].to_pylist(), strict=True)
    states = [lost[node].state if node in lost else state for node, state in pairs]
    return _replaced(nodes, "state", states)


def _replaced(table: pa.Table, column: str, values: list[Any]) -> pa.Table:
    index = table.schema.get_field_index(column)
    return table.set_column(index, table.schema.field(index), pa.array(values, pa.string()))
