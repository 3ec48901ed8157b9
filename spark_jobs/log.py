"""Append what happened to plans.log, each event once however often a task is retried.

Written through delta-rs: a row of the log needs no JVM, so that a refusal, a dry run or a repair
costs milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from ballast.contracts.schemas import arrow_schema
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.plans import Head
from ballast.store.tables import ensure_tables, open_table, read_rows, table_exists

LOG = "plans.log"
ATTEMPTS = 50


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
    return _append_once([row], f"{LOG}:{event.write_id}", settings)


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


def _append_once(rows: Sequence[dict[str, Any]], app_id: str, settings: Settings) -> bool:
    """Append under an application id that is used once.

    Each attempt is made against the table in which the id was looked up. When another process
    commits the same id in between, delta-rs refuses the commit, and the next look finds it.
    """
    data = pa.Table.from_pylist(list(rows), schema=arrow_schema(TABLES[LOG]))
    mark = CommitProperties(app_transactions=[Transaction(app_id, 1)])
    for attempt in range(1, ATTEMPTS + 1):
        table = open_table(settings, LOG)
        if table.transaction_version(app_id) is not None:
            return False
        try:
            write_deltalake(table, data, mode="append", commit_properties=mark)
        except CommitFailedError:
            if attempt == ATTEMPTS:
                raise
            time.sleep(0.01 * attempt)
        else:
            return True
    return False
