"""The newest snapshot as the job stands today: what a rollback is planned and judged by.

Loads are those of the newest snapshot. Where key groups are comes from the plan that the job has
applied since, and what nodes may be used from today's policy and metrics. Kept as a snapshot of
its own run, so that a rollback is a plan like any other: verified, measured, looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ballast.contracts.errors import NotFound
from ballast.contracts.identity import snapshot_id as identity_of_snapshot
from ballast.contracts.policy import JobPolicy, policy_from_json
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_assignment
from ballast.store.snapshots import newest_snapshot, snapshot_of_run
from ballast.store.tables import append_once, ensure_tables, read_rows
from spark_jobs.draft.problem import Row
from spark_jobs.program.run import progress
from spark_jobs.publication.current_state import current_policy, read_node_state
from spark_jobs.publication.staleness import UnusableNode, unusable_nodes

SNAPSHOTS = "snapshots.snapshots"
WRITTEN = (
    "snapshots.key_groups", "snapshots.nodes", "snapshots.traffic", "snapshots.key_pairs",
    "snapshots.connections", SNAPSHOTS,
)  # fmt: skip
Placement = dict[tuple[str, int], str]


def derived_snapshot(settings: Settings, job: str, run_id: str, head: Head) -> Row:
    """The run's snapshot: the one it has, or a new one that stands on the newest."""
    found = snapshot_of_run(settings, job, run_id)
    if found is not None:
        return found
    source = source_snapshot(settings, job)
    # A warehouse of an earlier version may lack columns that are written here.
    ensure_tables(settings, WRITTEN)
    return _derive(settings, source, run_id, head)


def source_snapshot(settings: Settings, job: str) -> Row:
    """The snapshot that a new one would stand on: the newest."""
    source = newest_snapshot(settings, job)
    if source is None:
        raise NotFound(
            f"job {job} has no snapshot, so nothing is known of its nodes", value=job,
            remedy=f"run reoptimize__{job} first",
        )  # fmt: skip
    return source


def _derive(settings: Settings, source: Row, run_id: str, head: Head) -> Row:
    job = source["job"]
    was = policy_from_json(source["policy_json"])
    policy = current_policy(settings, was)
    pins = ["derived from", source["snapshot_id"], f"version {head.version}", policy.to_json()]
    new_id = identity_of_snapshot(job, run_id, pins)
    for name, rows in _details(settings, was, source, head).items():
        column = pa.array([new_id] * rows.num_rows, pa.string())
        renamed = rows.set_column(rows.schema.get_field_index("snapshot_id"), "snapshot_id", column)
        if rows.num_rows:
            append_once(settings, name, renamed, app_id=f"{name}:{new_id}", app_version=1)
    row = {
        **source,
        "snapshot_id": new_id,
        "run_id": run_id,
        "head_version": head.version,
        "head_plan_id": head.plan_id,
        "policy_json": policy.to_json(),
        "created_at": datetime.now(UTC),
    }
    append_once(settings, SNAPSHOTS, [row], app_id=f"{SNAPSHOTS}:{job}:{run_id}", app_version=1)
    progress.info(
        "nodes and loads of snapshot %s, taken %s", source["snapshot_id"], source["created_at"]
    )
    written = read_rows(settings, SNAPSHOTS, job=job, where=[("run_id", "=", run_id)]).to_pylist()
    return dict(written[0])


def _details(settings: Settings, policy: JobPolicy, source: Row, head: Head) -> dict[str, pa.Table]:
    names = ["snapshots.traffic"]
    if source["key_pairs_table_version"] is not None:
        names.append("snapshots.key_pairs")
    if source.get("connections_table_version") is not None:
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


def placement_now(settings: Settings, source: Row, head: Head) -> Placement:
    """Where key groups are since a plan that the job applied after the snapshot; empty: as in it.

    A version that the job has not applied is the head, but not where things are.
    """
    acks = read_acks(settings, head.job, head.version)
    if not acks or acks[-1]["status"] != "applied":
        return {}
    if source["head_version"] >= head.version and acks[-1]["acked_at"] <= source["created_at"]:
        return {}
    rows = read_assignment(settings, head.job, head.plan_id)
    return {(row["operator_id"], row["key_group"]): row["node_id"] for row in rows}


def read_part(settings: Settings, name: str, source: Row) -> pa.Table:
    """The rows that a table has of a snapshot."""
    where = [("snapshot_id", "=", source["snapshot_id"])]
    return read_rows(settings, name, job=source["job"], where=where)


def _placed(key_groups: pa.Table, placement: Placement) -> pa.Table:
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
