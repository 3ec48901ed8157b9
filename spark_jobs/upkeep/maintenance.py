"""Maintenance of all tables: remove expired rows, merge small files, delete files without a use.

What a plan refers to stays if the plan is in force, may be rolled back to, or may still be solved
or reviewed. What a run may be reading stays as well (ADR 45).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from ballast.contracts.fault_points import fault_point
from ballast.contracts.settings import Settings
from spark_jobs.program.run import progress
from spark_jobs.upkeep import delta_vacuum as delta_rs
from spark_jobs.upkeep.expired_rows import (
    HEADS,
    PLANS,
    REJECTED,
    SNAPSHOTS,
    ExpiredRows,
    expired_rows,
)
from spark_jobs.upkeep.job_facts import jobs_in, read_facts
from spark_jobs.upkeep.maintenance_steps import MaintenanceSteps
from spark_jobs.upkeep.retention import JobFacts, pinned_versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES_OF_SPARK = (REJECTED,)
"""Tables that ``condense`` writes through Spark; delta-rs writes all others (ADR 9)."""
REFERENCE_TABLES = (HEADS, PLANS, SNAPSHOTS, "plans.log")
"""Tables that say which rows and files are needed. If one cannot be read, nothing is removed."""
NOT_COMPACTED = (HEADS,)
"""It has one file a job, and a publisher must not lose its commit to a compaction."""

Sessions = Callable[[], AbstractContextManager["SparkSession"]]


def maintain(settings: Settings, sessions: Sessions, now: datetime) -> None:
    """Maintain every table that exists. A broken table does not keep others from maintenance.

    Args:
        sessions: opens a Spark session; called only if a table of Spark needs maintenance.
        now: the time from which retention is counted.

    Raises:
        MaintenanceFailed: at least one table could not be maintained; raised after all others.
    """
    steps = MaintenanceSteps()
    existing = delta_rs.existing_tables(settings)
    names = [name for name in existing if steps.run(name, partial(_restore, settings, name))]
    if steps.failed_any(REFERENCE_TABLES):
        steps.raise_failures()
    facts = [read_facts(settings, job) for job in jobs_in(settings, names)]
    expired = [rows for of_job in facts for rows in expired_rows(of_job, now)]
    _remove(settings, [rows for rows in expired if rows.table in names], steps)
    for name in names:
        if name in TABLES_OF_SPARK:
            of_table = [rows for rows in expired if rows.table == name]
            steps.run(name, partial(_clean_with_spark, settings, sessions, name, of_table))
        else:
            steps.run(name, partial(_clean, settings, facts, name, now))
    steps.raise_failures()
    progress.info("maintained %d tables with rows of %d jobs", len(names), len(facts))


def _remove(settings: Settings, expired: Sequence[ExpiredRows], steps: MaintenanceSteps) -> None:
    """Remove rows; the row of a plan or snapshot stays while some of its parts are left."""
    for rows in expired:
        parts_may_be_left = rows.table in (SNAPSHOTS, PLANS) and bool(steps.problems)
        if rows.table not in TABLES_OF_SPARK and not parts_may_be_left:
            steps.run(rows.table, partial(_delete, settings, rows))
            fault_point(f"maintain.after_{rows.table}")


def _restore(settings: Settings, name: str) -> None:
    """Check that the table can be read, add missing columns, and restore append-only."""
    if delta_rs.restore_table(settings, name, add_columns=name not in NOT_COMPACTED):
        progress.info("%s: append-only again; a run that died had switched it off", name)


def _delete(settings: Settings, rows: ExpiredRows) -> None:
    count = delta_rs.delete(settings, rows)
    if count:
        progress.info("%s: removed %d rows where %s", rows.table, count, rows.where[:200])


def _clean(settings: Settings, facts: Sequence[JobFacts], name: str, now: datetime) -> None:
    if name not in NOT_COMPACTED:
        done = delta_rs.compact(settings, name, now.date())
        if done.removed:
            progress.info("%s: merged %d files into %d", name, done.removed, done.added)
    pinned = sorted({version for of_job in facts for version in pinned_versions(of_job, name)})
    deleted = delta_rs.vacuum(settings, name, pinned)
    if deleted:
        progress.info("%s: deleted %d files that no version needs", name, deleted)


def _clean_with_spark(
    settings: Settings, sessions: Sessions, name: str, expired: Sequence[ExpiredRows]
) -> None:
    """Open a session only if there is something to do (ADR 9)."""
    work = delta_rs.pending_work(settings, name, expired)
    if not work.is_any:
        return
    from spark_jobs.upkeep.rejected_rows_cleanup import clean

    with sessions() as spark:
        clean(spark, settings, name, work.expired)
    progress.info(
        "%s: maintained by Spark (%d deletes, %d crowded partitions, %d files without a use)",
        name, len(work.expired), work.crowded_partitions, work.unused_files,
    )  # fmt: skip
