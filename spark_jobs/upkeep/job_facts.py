"""Read what a job's plans, log and snapshots say, without a JVM; only the columns that are used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ballast.contracts.settings import JOB_NAME_PATTERN, Settings
from ballast.store.plans import read_head
from ballast.store.tables import open_table, read_rows, table_exists
from spark_jobs.upkeep.retention import PINS, JobFacts

PLAN_COLUMNS = ("plan_id", "snapshot_id", "status", "parent_version", "created_at")
LOG_COLUMNS = ("event", "version", "plan_id", "at")
SNAPSHOT_COLUMNS = (
    "snapshot_id", "head_version", "period_end_at", "created_at", "policy_json",
    "remembered_snapshot_ids", *PINS.values(),
)  # fmt: skip


def jobs_in(settings: Settings, tables: Sequence[str]) -> list[str]:
    """Jobs that have a row in any of the tables; raw tables may hold what is no job's name."""
    found = {
        partition.get("job")
        for table in tables
        for partition in open_table(settings, table).partitions()
    }
    return sorted(job for job in found if job and re.fullmatch(JOB_NAME_PATTERN, job))


def read_facts(settings: Settings, job: str) -> JobFacts:
    """What is known of a job's plans.

    The head is read first: a plan that is published meanwhile finds its draft kept, for it was
    made against this head or a later one.
    """
    head = read_head(settings, job)
    return JobFacts(
        job=job,
        head=head,
        plans=_rows(settings, "plans.plans", job, PLAN_COLUMNS),
        log=_rows(settings, "plans.log", job, LOG_COLUMNS),
        snapshots=_rows(settings, "snapshots.snapshots", job, SNAPSHOT_COLUMNS),
    )


def _rows(settings: Settings, table: str, job: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    if not table_exists(settings, table):
        return []
    return list(read_rows(settings, table, job=job, columns=columns).to_pylist())
