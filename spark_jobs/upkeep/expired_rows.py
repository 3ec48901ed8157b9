"""Which rows of which table have expired, as SQL conditions for both engines. Pure.

Each table has one rule, by its kind of rows: windows of a date, parts of a snapshot, parts of a
plan, or events of a plan. Parts are removed before the row of their snapshot or plan, so that the
next run finds what a killed run left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ballast.contracts.settings import check_job_name
from ballast.contracts.tables import TABLES, Table
from spark_jobs.upkeep.retention import (
    JobFacts,
    cutoff,
    expired_plans,
    expired_snapshots,
    first_date_kept,
)

SNAPSHOTS, PLANS, HEADS, REJECTED = (
    "snapshots.snapshots", "plans.plans", "plans.heads", "metrics.rejected",
)  # fmt: skip
IDS_AT_ONCE = 500


@dataclass(frozen=True)
class ExpiredRows:
    """Rows of a table to remove; ``whole_partitions`` if no file has to be rewritten."""

    table: str
    where: str
    whole_partitions: bool = False


def expired_rows(facts: JobFacts, now: datetime) -> Iterator[ExpiredRows]:
    """The expired rows of one job, in the order in which they are removed."""
    job = f"job = '{check_job_name(facts.job)}'"
    for table in dated_tables():
        first = first_date_kept(facts, table, now).isoformat()
        yield ExpiredRows(
            table.name, f"{job} AND window_date < DATE '{first}'", whole_partitions=True
        )
    since = _timestamp(cutoff(TABLES[REJECTED], now))
    yield ExpiredRows(REJECTED, f"{job} AND rejected_at < {since}")
    for snapshot_ids in _portions(expired_snapshots(facts, now)):
        for name in [*snapshot_parts(), SNAPSHOTS]:
            yield ExpiredRows(name, f"{job} AND snapshot_id IN ({snapshot_ids})")
    for plan_ids in _portions(expired_plans(facts, now)):
        for name in [*plan_events(), *plan_parts(), PLANS]:
            yield ExpiredRows(name, f"{job} AND plan_id IN ({plan_ids})")
    since = _timestamp(cutoff(TABLES["plans.log"], now))
    yield ExpiredRows("plans.log", f"{job} AND plan_id IS NULL AND at < {since}")


def dated_tables() -> list[Table]:
    """Tables of windows; they are removed in whole partitions, by date."""
    return [table for table in TABLES.values() if "window_date" in table.partition_by]


def snapshot_parts() -> list[str]:
    """Tables with the rows of a snapshot."""
    return [
        name for name, table in TABLES.items()
        if name.startswith("snapshots.") and "snapshot_id" in table.key and name != SNAPSHOTS
    ]  # fmt: skip


def plan_parts() -> list[str]:
    """Tables with the content of a plan."""
    return [name for name in _tables_of_plans() if _is_content(TABLES[name])]


def plan_events() -> list[str]:
    """Tables with events of a plan."""
    return [name for name in _tables_of_plans() if not _is_content(TABLES[name])]


def _tables_of_plans() -> list[str]:
    return [name for name in TABLES if name.startswith("plans.") and name not in (PLANS, HEADS)]


def _is_content(table: Table) -> bool:
    return not any(column.type == "timestamp" for column in table.columns)


def _portions(ids: Sequence[str]) -> Iterator[str]:
    """The ids as SQL lists, at most ``IDS_AT_ONCE`` in one statement."""
    for begin in range(0, len(ids), IDS_AT_ONCE):
        quoted = (name.replace("'", "''") for name in ids[begin : begin + IDS_AT_ONCE])
        yield ", ".join(f"'{name}'" for name in quoted)


def _timestamp(at: datetime) -> str:
    """A literal that both engines convert to the type of the compared column."""
    return f"'{at:%Y-%m-%dT%H:%M:%SZ}'"
