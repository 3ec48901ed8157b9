"""From the looks at both ends of a window to rows of the tables of metrics. Pure.

A key group is a subtask. An operator has rows only if all of its subtasks were measured during the
whole window; numbers above its present size are subtasks that do not exist and did nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ballast.contracts.policy import JobPolicy
from ballast.engines.flink.counters import JobSample, SubtaskWork, work_between
from ballast.store.metric_windows import capacity_columns, window_columns

Row = dict[str, Any]


@dataclass(frozen=True)
class MeasuredWindow:
    """One window: the job at both ends, and how often it answered."""

    start_ms: int
    length_ms: int
    before: JobSample
    after: JobSample
    looks: int

    @property
    def number(self) -> int:
        """The number of the window since 1970; the batch id of its rows."""
        return self.start_ms // self.length_ms

    def columns(self, job: str, emitted_at: datetime) -> Row:
        """The columns that all its rows share."""
        span = (self.start_ms, self.start_ms + self.length_ms)
        batches = (self.number, self.number)
        return window_columns(job, span, batches, self.after.version, emitted_at)


def rows_of_window(
    window: MeasuredWindow, policy: JobPolicy, emitted_at: datetime
) -> dict[str, list[Row]]:
    """The rows of a window by table; ``metrics.nodes`` last.

    Args:
        window: the window.
        policy: the job's policy; its only node is the cluster.
        emitted_at: when the rows are written.

    Returns:
        No rows at all if the job did not run as planned at both ends.
    """
    tables: dict[str, list[Row]] = {
        "metrics.key_groups": [], "metrics.sources": [], "metrics.nodes": [],
    }  # fmt: skip
    if not (window.before.is_as_planned and window.after.is_as_planned):
        return tables
    common = window.columns(policy.job, emitted_at)
    for operator in policy.operators:
        work = work_between(window.before, window.after, operator.id)
        state = window.after.state_bytes.get(operator.id)
        if work is None or state is None:
            continue
        is_source = operator.id in policy.entry_operators
        tables["metrics.key_groups"] += _subtask_rows(
            {**common, "operator_id": operator.id, "node_id": policy.nodes[0].id},
            work, state, most=operator.key_groups, is_source=is_source,
        )  # fmt: skip
        if is_source:
            read = sum(each.records_out for each in work)
            tables["metrics.sources"].append(_source_row(common, window, operator.id, read))
    tables["metrics.nodes"].append(_cluster_row(common, window, policy, tables))
    return tables


def _subtask_rows(
    common: Mapping[str, Any],
    work: tuple[SubtaskWork, ...],
    state: tuple[int, ...],
    *,
    most: int,
    is_source: bool,
) -> list[Row]:
    idle = SubtaskWork(0, 0, 0.0)
    rows = []
    for number in range(most):
        done = work[number] if number < len(work) else idle
        rows.append(
            {
                **common,
                "key_group": number,
                # A source takes its records from outside; Flink counts what it passes on.
                "records": done.records_out if is_source else done.records_in,
                # Flink measures how long a subtask is busy, and no CPU time.
                "cpu_ms": done.busy_ms,
                "busy_ms": done.busy_ms,
                "state_bytes": state[number] if number < len(state) else 0,
                # The cluster is the only node: nothing goes to another one.
                "bytes_in": 0,
                "bytes_out": 0,
            }
        )
    return rows


def _source_row(common: Mapping[str, Any], window: MeasuredWindow, operator: str, read: int) -> Row:
    then, now = (sample.pending.get(operator) for sample in (window.before, window.after))
    arrived = None if then is None or now is None else max(0, read + now - then)
    return {
        **common,
        "source_id": operator,
        "operator_id": operator,
        "records": read,
        "arrived_records": arrived,
        "backlog_records": now,
    }


def _cluster_row(
    common: Mapping[str, Any],
    window: MeasuredWindow,
    policy: JobPolicy,
    tables: Mapping[str, list[Row]],
) -> Row:
    subtasks = tables["metrics.key_groups"]
    return {
        **common,
        **capacity_columns(policy.nodes[0]),
        "state": "alive",
        "heartbeats": window.looks,
        "records": sum(row["records"] for row in subtasks),
        "cpu_used_ms": sum(row["cpu_ms"] for row in subtasks),
        "memory_used_bytes": sum(row["state_bytes"] for row in subtasks),
        "network_used_bytes": 0,
    }
