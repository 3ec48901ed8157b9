"""Outcomes of the load distance of versions, as ``measure`` writes them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ballast.contracts.records import LogEntry, Outcome
from ballast.contracts.settings import Settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from tests.support.rows import row_of

JOB = "probe"
FIRST = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
MEASURED = {"inside": 5.0, "below": 2.0, "above": 9.0, None: 9.0}
"""Measured load distances by side of the interval from 4 to 6."""


def outcome(version: int, side: str | None, minute: int = 0, **values: object) -> Outcome:
    """The load distance of a version, measured some minutes after the hour with the version's
    number."""
    interval = {"low": None, "high": None} if side is None else {"low": 4.0, "high": 6.0}
    row = row_of(
        Outcome.table, job=JOB, version=version, plan_id=f"plan-{version}",
        run_id=f"run-{version}-{minute}", figure="load_distance_pct", unit="% of mean",
        promised=5.0, measured=MEASURED[side], side=side,
        measured_at=FIRST + timedelta(hours=version, minutes=minute), **interval,
    )  # fmt: skip
    return Outcome.from_row(row | values)


def first_outcomes(*sides: str | None) -> list[Outcome]:
    """The first outcome of versions 1, 2, ..."""
    return [outcome(version, side) for version, side in enumerate(sides, start=1)]


def planning_event(event: str, version: int | None, at: datetime = FIRST) -> LogEntry:
    """A row of the log about planning."""
    return LogEntry(
        job=JOB, at=at, event=event, version=version, run_id="run", actor="ada", reason="because"
    )


def write_outcomes(settings: Settings, outcomes: Iterable[Outcome], job: str = JOB) -> None:
    """Append outcomes to the table."""
    ensure_tables(settings, [Outcome.table])
    append(settings, Outcome.table, [row.to_row() | {"job": job} for row in outcomes])
