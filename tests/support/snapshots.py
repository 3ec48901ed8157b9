"""Snapshots as ``condense`` writes them, for tests of later stages.

snapshot = write_snapshot(settings, policy, "run-1", placement={...}, loads={...})
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ballast.contracts.identity import snapshot_id
from ballast.contracts.policy import JobPolicy, NodePolicy
from ballast.contracts.records import Draft, Head, Snapshot
from ballast.contracts.scaling import nodes_in_use
from ballast.contracts.settings import Settings
from ballast.contracts.tables import NOISE_RESOURCES, STEADY
from ballast.store.plans import read_plan
from ballast.store.tables import append
from spark_jobs.draft import draft_plan, draft_tables
from spark_jobs.draft.solve_arguments import SolveOptions
from tests.support.metrics import round_robin

Row = dict[str, Any]
Group = tuple[str, int]
END = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
FIRST_ROWS = 2
"""The version of a table with its first rows: 0 creates it, and 1 sets its contract version."""


def write_snapshot(settings: Settings, policy: JobPolicy, run_id: str, **rows: Any) -> Snapshot:
    """Append the rows of one snapshot, its own row last."""
    written = snapshot_rows(policy, run_id, **rows)
    for table, of_table in written.items():
        if of_table:
            append(settings, table, of_table)
    return Snapshot.from_row(written["snapshots.snapshots"][0])


def snapshot_rows(
    policy: JobPolicy,
    run_id: str,
    *,
    placement: Mapping[Group, str] | None = None,
    loads: Mapping[Group, float] | None = None,
    states: Mapping[str, str] | None = None,
    head: Head | None = None,
    traffic: bool = True,
    noise_pct: float | None = None,
    steps: int = 0,
    backlog: int | None = 0,
    at: datetime = END,
    **own: Any,
) -> dict[str, list[Row]]:
    """The rows by table; ``loads`` are cores (0.1 by default), ``states`` those of nodes.

    Nodes are those with a state, and those of the policy that are not spare. With ``steps`` there
    are load series of this number of steps of a minute, and sources with this ``backlog``; ``own``
    are columns of the snapshot's own row. With ``noise_pct`` every load varies by this percentage
    of itself from window to window; without it the snapshot is one of an earlier version.
    """
    used = states if policy.scaling and states else {**nodes_in_use(policy), **(states or {})}
    placed = {**round_robin(policy), **(placement or {})}
    ids = {"job": policy.job, "snapshot_id": snapshot_id(policy.job, run_id, ["test"])}
    edges = [
        _traffic_row(ids, edge.source, edge.target, number)
        for edge in policy.edges
        for number in range(policy.operator(edge.source).key_groups)
    ]
    return {
        "snapshots.key_groups": [
            _key_group_row(ids, group, node, (loads or {}).get(group, 0.1))
            | _noise_columns(policy, (loads or {}).get(group, 0.1), noise_pct)
            for group, node in placed.items()
        ],
        "snapshots.noise": [
            noise_row(ids, resource, policy.windows_per_period)
            for resource in NOISE_RESOURCES
            if noise_pct is not None
        ],
        "snapshots.nodes": [
            _node_row(ids, node, used[node.id]) for node in policy.nodes if node.id in used
        ],
        "snapshots.load_series": [
            _step_row(ids, group, step, (loads or {}).get(group, 0.1), at)
            for group in placed
            for step in range(steps)
        ],
        "snapshots.sources": [
            {**ids, "source_id": name, "operator_id": name, "arrival_records_per_s": 20.0,
             "backlog_records": backlog, "windows": 6}
            for name in policy.entry_operators if steps
        ],
        "snapshots.traffic": edges if traffic else [],
        "snapshots.snapshots": [_snapshot_row(ids, policy, run_id, head, at) | own],
    }  # fmt: skip


def uneven(policy: JobPolicy, extra: int = 2) -> dict[Group, str]:
    """A placement with ``extra`` more key groups of every operator on the first node."""
    placed = round_robin(policy)
    first = policy.nodes[0].id
    for operator in policy.operators:
        others = [g for g in range(operator.key_groups) if placed[operator.id, g] != first]
        placed.update(((operator.id, group), first) for group in others[:extra])
    return placed


def _snapshot_row(ids: Row, policy: JobPolicy, run_id: str, head: Head | None, at: datetime) -> Row:
    return {
        **ids,
        "run_id": run_id,
        "period_start_at": at - timedelta(seconds=policy.statistics_period_s),
        "period_end_at": at,
        "windows": policy.windows_per_period,
        "head_version": head.version if head else 0,
        "head_plan_id": head.plan_id if head else None,
        "key_groups_table_version": FIRST_ROWS,
        "nodes_table_version": FIRST_ROWS,
        "traffic_table_version": FIRST_ROWS,
        "key_pairs_table_version": None,
        "rejected_rows": 0,
        "policy_json": policy.to_json(),
        "created_at": at,
    }


def _step_row(ids: Row, group: Group, step: int, load: float, at: datetime) -> Row:
    return {
        **ids,
        "operator_id": group[0],
        "key_group": group[1],
        "step": step,
        "step_end_at": at,
        "step_s": 60.0,
        "cpu_load_cores": load,
        "busy_load_cores": load,
        "memory_load_bytes": 1000.0,
        "network_load_bytes_per_s": 100.0,
        "records_per_s": 20.0,
    }


def _key_group_row(ids: Row, group: Group, node: str, load: float) -> Row:
    return {
        **ids,
        "operator_id": group[0],
        "key_group": group[1],
        "node_id": node,
        "cpu_load_cores": load,
        "memory_load_bytes": 1000.0,
        "network_load_bytes_per_s": 100.0,
        "records_per_s": 20.0,
        "state_bytes": 1000,
    }


def _noise_columns(policy: JobPolicy, cpu: float, noise_pct: float | None) -> Row:
    if noise_pct is None:
        return {}
    share, windows = noise_pct / 100, policy.windows_per_period
    return {
        "cpu_window_sd_cores": share * cpu,
        "cpu_mean_error_cores": share * cpu / math.sqrt(windows),
        "network_window_sd_bytes_per_s": share * 100.0,
        "network_mean_error_bytes_per_s": share * 100.0 / math.sqrt(windows),
        "busy_windows": windows,
    }


def noise_row(ids: Row, resource: str, windows: int, **columns: Any) -> Row:
    """A row of snapshots.noise: noise of key groups, and a common factor of windows."""
    return {
        **ids,
        "resource": resource,
        "status": STEADY,
        "reason": "the two halves of the period differ by 0.1 % of the mean, within the noise",
        "windows": windows,
        "wild_windows": 0,
        "common_sd_pct": 0.0,
        "node_variance_ratio": 1.0,
        "period_variance_ratio": 1.0,
        "trend_pct": None,
        **columns,
    }


def _node_row(ids: Row, node: NodePolicy, state: str) -> Row:
    return {
        **ids,
        "node_id": node.id,
        "cluster": node.cluster,
        "rack": node.rack,
        "cpu_capacity_cores": node.capacity.cpu_cores,
        "memory_capacity_bytes": node.capacity.memory_bytes,
        "network_capacity_bytes_per_s": node.capacity.network_bytes_per_s,
        "state": state,
        "last_seen_at": END,
        "silent_windows": 0,
    }


def _traffic_row(ids: Row, source: str, target: str, number: int) -> Row:
    return {
        **ids,
        "from_operator_id": source,
        "from_key_group": number,
        "to_operator_id": target,
        "to_key_group": number,
        "records_per_s": 10.0,
        "bytes_per_s": 200.0,
    }


def write_draft(
    settings: Settings, policy: JobPolicy, run_id: str, *, seconds: float = 2, **rows: Any
) -> Draft:
    """A snapshot and the draft that ``solve`` makes of it, written without a JVM."""
    snapshot = write_snapshot(settings, policy, run_id, **rows)
    made = draft_plan.make_draft(settings, snapshot, SolveOptions(solver_seconds=seconds))
    draft_tables.write_draft(settings, made)
    return read_plan(settings, policy.job, made.draft.plan_id)
