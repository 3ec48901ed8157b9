"""Keep the tables small: ``spark-submit spark_jobs/maintain.py``.

Rows that outlived their table's retention go, many small files become few, and files that no
version needs are deleted. What a plan refers to that is in force, may be rolled back to or may
still be solved or reviewed stays, and so does what a run may be reading (docs/adr/0045). Every step
may be killed and run again, beside publishers and running jobs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING

from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.tables import ensure_tables, open_table, table_exists
from spark_jobs.program.arguments import add_as_of_argument
from spark_jobs.program.fault_points import fault_point
from spark_jobs.program.run import progress, run_program, spark_session
from spark_jobs.upkeep import delta_rs_cleanup as delta_rs
from spark_jobs.upkeep.expiry import HEADS, PLANS, REJECTED, SNAPSHOTS, Expired, expired_rows
from spark_jobs.upkeep.job_facts import jobs_in, read_facts
from spark_jobs.upkeep.retention import JobFacts, pinned_versions
from spark_jobs.upkeep.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES_OF_SPARK = (REJECTED,)
"""What ``condense`` merges into; all others are delta-rs's (docs/adr/0009)."""
NEEDED = (HEADS, PLANS, SNAPSHOTS, "plans.log")
"""What tells which rows and files are still needed: unread, nothing may go."""
LEFT_ALONE = (HEADS,)
"""Never compacted: it has one file a job, and who publishes must not lose to it."""

Sessions = Callable[[], AbstractContextManager["SparkSession"]]


def maintain(settings: Settings, sessions: Sessions, now: datetime) -> None:
    """Tidy every table there is; one that is broken keeps none of the others from it."""
    steps = Steps()
    there = [name for name in TABLES if table_exists(settings, name)]
    names = [name for name in there if steps.take(name, partial(_restore, settings, name))]
    if steps.failed_any(NEEDED):
        steps.raise_failures()
    facts = [read_facts(settings, job) for job in jobs_in(settings, names)]
    expired = [rows for of_job in facts for rows in expired_rows(of_job, now)]
    _remove(settings, [rows for rows in expired if rows.table in names], steps)
    for name in names:
        if name in TABLES_OF_SPARK:
            of_table = [rows for rows in expired if rows.table == name]
            steps.take(name, partial(_on_spark, settings, sessions, name, of_table))
        else:
            steps.take(name, partial(_tidy, settings, facts, name, now))
    steps.raise_failures()
    progress.info("tidied %d tables with rows of %d jobs", len(names), len(facts))


def _remove(settings: Settings, expired: Sequence[Expired], steps: Steps) -> None:
    """Remove rows; one that names details stays for as long as some of those could not go."""
    for rows in expired:
        names_details = rows.table in (SNAPSHOTS, PLANS) and bool(steps.problems)
        if rows.table not in TABLES_OF_SPARK and not names_details:
            steps.take(rows.table, partial(_delete, settings, rows))
            fault_point(f"maintain.after_{rows.table}")


def _restore(settings: Settings, name: str) -> None:
    """Also finds out whether the table can be read at all, and adds columns that it lacks."""
    open_table(settings, name)
    if name not in LEFT_ALONE:
        ensure_tables(settings, [name])
    if name not in TABLES_OF_SPARK and delta_rs.restore_append_only(settings, name):
        progress.info("%s: append-only again, which a run that died had lifted", name)


def _delete(settings: Settings, rows: Expired) -> None:
    count = delta_rs.delete(settings, rows)
    if count:
        progress.info("%s: removed %d rows where %s", rows.table, count, rows.where[:200])


def _tidy(settings: Settings, facts: Sequence[JobFacts], name: str, now: datetime) -> None:
    if name not in LEFT_ALONE:
        done = delta_rs.compact(settings, name, now.date())
        if done.removed:
            progress.info("%s: made %d files of %d", name, done.added, done.removed)
    pinned = sorted({version for of_job in facts for version in pinned_versions(of_job, name)})
    deleted = delta_rs.vacuum(settings, name, pinned)
    if deleted:
        progress.info("%s: deleted %d files that no version needs", name, deleted)


def _on_spark(
    settings: Settings, sessions: Sessions, name: str, expired: Sequence[Expired]
) -> None:
    """Look first: a table that nobody wrote to needs no session (docs/adr/0009)."""
    table = open_table(settings, name)
    due = [rows for rows in expired if delta_rs.count_rows(table, rows.where)]
    crowded = delta_rs.worth_compacting(table, name, date.max)
    garbage = table.vacuum(dry_run=True, full=True)
    if not (due or crowded or garbage):
        return
    from spark_jobs.upkeep.spark_cleanup import tidy

    with sessions() as spark:
        tidy(spark, settings, name, due)
    progress.info(
        "%s: tidied by Spark (%d deletes, %d crowded partitions, %d files that no version needed)",
        name, len(due), len(crowded), len(garbage),
    )  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``maintain``."""
    add_as_of_argument(parser)


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``maintain`` as the command line asks for it."""
    maintain(
        settings,
        lambda: spark_session(settings, "ballast maintain"),
        arguments.as_of or datetime.now(UTC),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("maintain", "Keep the tables small.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
