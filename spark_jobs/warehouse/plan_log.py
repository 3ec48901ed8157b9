"""Append what happened to plans.log, each event once however often a task is retried.

Written through delta-rs: a row of the log needs no JVM, so that a refusal, a dry run or a repair
costs milliseconds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from ballast.store.tables import append_once, ensure_tables, read_rows, table_exists

LOG = "plans.log"


@dataclass(frozen=True)
class Event:
    """A row of plans.log but for its time."""

    job: str
    event: str
    run_id: str
    actor: str
    reason: str
    version: int | None = None
    plan_id: str | None = None

    @property
    def write_id(self) -> str:
        """Events of one write id are one event.

        A version is published once, whoever writes it down: its publisher, or another process
        that found the row missing.
        """
        if self.event == "published":
            return f"{self.job}:published:{self.version}"
        return f"{self.job}:{self.event}:{self.run_id}:{self.version}:{self.plan_id}"


def append_event(settings: Settings, event: Event, at: datetime | None = None) -> bool:
    """Write the event down unless it has been; tells whether this call wrote it."""
    ensure_tables(settings, [LOG])
    row = {**asdict(event), "at": at or datetime.now(UTC)}
    return append_once(settings, LOG, [row], app_id=f"{LOG}:{event.write_id}", app_version=1)


def says_published(settings: Settings, head: Head) -> bool:
    """Whether the log says that this very plan of this very run came into force.

    The rows are compared, not the write id: a version is written down once, whoever won it.
    """
    if not table_exists(settings, LOG):
        return False
    where = [
        ("event", "=", "published"), ("version", "=", head.version),
        ("plan_id", "=", head.plan_id), ("run_id", "=", head.run_id),
    ]  # fmt: skip
    return read_rows(settings, LOG, job=head.job, where=where).num_rows > 0


def published_event(head: Head, reason: str = "") -> Event:
    """The event that a head's version came into force, by the run that put it there."""
    actor = f"publish of run {head.run_id}"
    return Event(head.job, "published", head.run_id, actor, reason, head.version, head.plan_id)
