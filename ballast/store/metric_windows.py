"""Columns that all rows of a window of metrics share, and the append of finished windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ballast.contracts.policy import NodePolicy
from ballast.contracts.settings import Settings
from ballast.store.tables import append_once

Row = dict[str, Any]


def append_windows(
    settings: Settings, job: str, rows_by_table: Mapping[str, Sequence[Row] | pa.Table], number: int
) -> None:
    """Append the rows of windows, a commit for each table in the given order.

    ``metrics.nodes`` has to come last: who reads its newest window finds that window in the other
    tables too.

    Args:
        settings: where the tables are.
        job: the job.
        rows_by_table: the rows of each table; a table without rows is left as it is.
        number: rises from window to window; a table that has it already is left as it is.
    """
    for table, rows in rows_by_table.items():
        if len(rows):
            append_once(
                settings, table, rows, app_id=f"ballast.{table}/{job}", app_version=number
            )  # fmt: skip


def window_columns(
    job: str,
    span_ms: tuple[int, int],
    batches: tuple[int, int] | None,
    plan_version: int,
    emitted_at: datetime,
) -> Row:
    """Return the columns that say which window a row is about.

    Args:
        job: the job.
        span_ms: start and end of the window in milliseconds since 1970.
        batches: first and last batch of the window; None if it covers none.
        plan_version: the version in force at its end.
        emitted_at: when the rows are written.
    """
    first, last = batches if batches else (None, None)
    start, end = utc_time(span_ms[0]), utc_time(span_ms[1])
    return {
        "job": job,
        "window_date": end.date(),
        "window_start_at": start,
        "window_end_at": end,
        "first_batch_id": first,
        "last_batch_id": last,
        "plan_version": plan_version,
        "emitted_at": emitted_at,
    }


def capacity_columns(node: NodePolicy) -> Row:
    """Return the columns of ``metrics.nodes`` that the policy knows of a node."""
    return {
        "node_id": node.id,
        "cluster": node.cluster,
        "rack": node.rack,
        "cpu_capacity_cores": node.capacity.cpu_cores,
        "memory_capacity_bytes": node.capacity.memory_bytes,
        "network_capacity_bytes_per_s": node.capacity.network_bytes_per_s,
    }


def utc_time(ms: int) -> datetime:
    """Return the UTC time of milliseconds since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)
