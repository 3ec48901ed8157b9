"""Append events to ``plans.log``, each event once however often a task is retried.

The rows are written through delta-rs. They need no JVM, so a refusal, a dry run or a repair takes
milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ballast.contracts.records import Head, LogEntry
from ballast.contracts.settings import Settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append_once, read_rows, table_exists

LOG = LogEntry.table


@dataclass(frozen=True)
class Event:
    """An event of a job's plans: a log entry that has no time yet."""

    job: str
    event: str
    run_id: str
    actor: str
    reason: str
    version: int | None = None
    plan_id: str | None = None
    unique_by: str | None = None
    """Text that makes the event unique; by default run, version and plan of the event."""

    @property
    def write_id(self) -> str:
        """Identity of the event: of several events with one write id, the log gets one.

        A version is published once. Its publisher writes the event, or another process that finds
        the row missing.
        """
        if self.unique_by is not None:
            return f"{self.job}:{self.event}:{self.unique_by}"
        if self.event == "published":
            return f"{self.job}:published:{self.version}"
        return f"{self.job}:{self.event}:{self.run_id}:{self.version}:{self.plan_id}"

    def entry(self, at: datetime) -> LogEntry:
        """The log entry of the event at a time."""
        return LogEntry(
            job=self.job,
            at=at,
            event=self.event,
            version=self.version,
            plan_id=self.plan_id,
            run_id=self.run_id,
            actor=self.actor,
            reason=self.reason,
        )


def append_event(settings: Settings, event: Event, at: datetime | None = None) -> bool:
    """Append the event to the log unless the log has it.

    Args:
        settings: where the tables are.
        event: the event.
        at: when it happened; now by default.

    Returns:
        Whether this call wrote the entry.
    """
    ensure_tables(settings, [LOG])
    row = event.entry(at or datetime.now(UTC)).to_row()
    return append_once(settings, LOG, [row], app_id=f"{LOG}:{event.write_id}", app_version=1)


def is_logged_as_published(settings: Settings, head: Head) -> bool:
    """Whether the log has a ``published`` entry for this plan, version and run.

    The entries are compared, not the write id: a version has one entry, whichever run won it.
    """
    if not table_exists(settings, LOG):
        return False
    where = [
        ("event", "=", "published"), ("version", "=", head.version),
        ("plan_id", "=", head.plan_id), ("run_id", "=", head.run_id),
    ]  # fmt: skip
    return bool(read_rows(settings, LOG, job=head.job, where=where).num_rows)


def published_event(head: Head, reason: str = "") -> Event:
    """The event that a head's version came into force, by the run that published it."""
    actor = f"publish of run {head.run_id}"
    return Event(head.job, "published", head.run_id, actor, reason, head.version, head.plan_id)
