"""Reads a job's plans, log and snapshots for retention, without a JVM; only the columns used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ballast.contracts.settings import JOB_NAME_PATTERN, Settings
from ballast.store.plans import read_head
from ballast.store.tables import open_table, read_rows, table_exists
from spark_jobs.upkeep.retention import PINS, JobFacts, LoggedEvent, StoredPlan, StoredSnapshot

PLAN_COLUMNS = tuple(column.name for column in fields(StoredPlan))
LOG_COLUMNS = tuple(column.name for column in fields(LoggedEvent))
SNAPSHOT_COLUMNS = (
    "snapshot_id", "head_version", "period_end_at", "created_at", "policy_json",
    "remembered_snapshot_ids", *PINS.values(),
)  # fmt: skip


def jobs_in(settings: Settings, tables: Sequence[str]) -> list[str]:
    """Jobs with a row in any of the tables. Raw tables may hold text that is not a job name."""
    jobs = {
        partition.get("job")
        for table in tables
        for partition in open_table(settings, table).partitions()
    }
    return sorted(job for job in jobs if job and re.fullmatch(JOB_NAME_PATTERN, job))


def read_facts(settings: Settings, job: str) -> JobFacts:
    """Read a job's head, then its plans, log and snapshots.

    The head is read first. A plan that is published meanwhile was made against this head or a
    later one, so its draft counts as needed.
    """
    head = read_head(settings, job)
    plans = _rows(settings, "plans.plans", job, PLAN_COLUMNS)
    log = _rows(settings, "plans.log", job, LOG_COLUMNS)
    snapshots = _rows(settings, "snapshots.snapshots", job, SNAPSHOT_COLUMNS)
    return JobFacts(
        job=job,
        head=head,
        plans=[StoredPlan(**row) for row in plans],
        log=[LoggedEvent(**row) for row in log],
        snapshots=[_stored_snapshot(row) for row in snapshots],
    )


def _stored_snapshot(row: dict[str, Any]) -> StoredSnapshot:
    versions = {table: row[column] for table, column in PINS.items() if row[column] is not None}
    return StoredSnapshot(
        snapshot_id=row["snapshot_id"],
        head_version=row["head_version"],
        period_end_at=row["period_end_at"],
        created_at=row["created_at"],
        policy_json=row["policy_json"],
        remembered_snapshot_ids=tuple(row["remembered_snapshot_ids"] or ()),
        read_versions=versions,
    )


def _rows(settings: Settings, table: str, job: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    if not table_exists(settings, table):
        return []
    return list(read_rows(settings, table, job=job, columns=columns).to_pylist())
