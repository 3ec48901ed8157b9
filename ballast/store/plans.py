"""Plans as readers see them: the head, a plan's content and promises, its log and outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from ballast.contracts.errors import NotFound
from ballast.contracts.settings import Settings
from ballast.store.tables import open_table, read_rows, rows_of, table_exists

Row = dict[str, Any]
ENDS_WAITING = (
    "approved", "rejected", "timed_out", "published", "refused", "conflict", "superseded",
)  # fmt: skip


GOES_ON = ("drafted", "unchanged", "published", "rolled_back")
"""Events of a job whose gate is open."""


@dataclass(frozen=True)
class Head:
    """A job's plan in force."""

    job: str
    version: int
    plan_id: str
    content_hash: str
    run_id: str
    published_at: datetime


def read_head(settings: Settings, job: str) -> Head | None:
    """The job's head, or None before its first plan."""
    if not table_exists(settings, "plans.heads"):
        return None
    return head_in(open_table(settings, "plans.heads"), job)


def head_in(heads: DeltaTable, job: str) -> Head | None:
    """The job's head in plans.heads as it was opened, or None before its first plan."""
    rows = rows_of(heads, job).to_pylist()
    return Head(**rows[0]) if rows else None


def read_assignment(settings: Settings, job: str, plan_id: str) -> list[Row]:
    """The content of a plan, ordered by operator and key group."""
    rows = _rows(settings, "plans.assignments", job, ("plan_id", "=", plan_id))
    return sorted(rows, key=lambda row: (row["operator_id"], row["key_group"]))


def read_routes(settings: Settings, job: str, plan_id: str) -> list[tuple[str, str, int]]:
    """The routes of a plan as (operator_id, key, key_group), in no order; most plans have none.

    As tuples and not as rows: there may be a million.
    """
    if not table_exists(settings, "plans.routes"):
        return []
    columns = ["operator_id", "key", "key_group"]
    where = [("plan_id", "=", plan_id)]
    found = read_rows(settings, "plans.routes", job=job, where=where, columns=columns)
    return list(zip(*(found[name].to_pylist() for name in columns), strict=True))


def read_scaling(settings: Settings, job: str, plan_id: str) -> list[Row]:
    """The rows of plans.scaling of a plan; none where the job is not scaled."""
    return _rows(settings, "plans.scaling", job, ("plan_id", "=", plan_id))


def read_weights(settings: Settings, job: str, plan_id: str) -> list[Row]:
    """The rows of plans.weights of a plan, by region and worker; none without ordered regions."""
    rows = _rows(settings, "plans.weights", job, ("plan_id", "=", plan_id))
    return sorted(rows, key=lambda row: (row["region_id"], row["worker_id"]))


def read_plan(settings: Settings, job: str, plan_id: str) -> Row:
    """What a plan promises and costs."""
    rows = _rows(settings, "plans.plans", job, ("plan_id", "=", plan_id))
    if not rows:
        raise NotFound(
            f"job {job} has no plan {plan_id}", value=plan_id,
            remedy=f"see `ballast plans list {job}`",
        )  # fmt: skip
    return rows[0]


def read_plans(settings: Settings, job: str) -> list[Row]:
    """Every draft of a job, oldest first."""
    return sorted(_rows(settings, "plans.plans", job), key=lambda row: row["created_at"])


def read_log(settings: Settings, job: str) -> list[Row]:
    """What happened to the job's plans, oldest first."""
    return sorted(_rows(settings, "plans.log", job), key=lambda row: row["at"])


def versions_of(log: Sequence[Row], head: Head | None) -> dict[int, str]:
    """Plan id of every version; the head counts even where its log row is still missing."""
    versions = {
        row["version"]: row["plan_id"]
        for row in log
        if row["event"] in ("published", "rolled_back") and row["version"] is not None
    }
    return versions | ({head.version: head.plan_id} if head else {})


def waiting_plans(log: Sequence[Row]) -> list[Row]:
    """The ``waiting`` rows of a log, oldest first, of plans that still wait for a person."""
    ended = {row["plan_id"] for row in log if row["event"] in ENDS_WAITING}
    asked = [row for row in log if row["event"] == "waiting" and row["plan_id"] not in ended]
    return list({row["plan_id"]: row for row in asked}.values())


def over_since(log: Sequence[Row], trouble: Row) -> datetime | None:
    """When a later run got through, of a log in order; None while the trouble lasts."""
    later = (row["at"] for row in log if row["at"] > trouble["at"] and row["event"] in GOES_ON)
    return next(later, None)


def read_acks(
    settings: Settings, job: str, version: int | None = None, region_id: str | None = None
) -> list[Row]:
    """The streaming job's words on its versions, oldest first; those of a region where named."""
    where = [("version", "=", version)] if version is not None else []
    rows = of_region(_rows(settings, "plans.acks", job, *where), region_id)
    return sorted(rows, key=lambda row: row["acked_at"])


def read_region_acks(settings: Settings, job: str, version: int) -> list[Row]:
    """The words of a job's ordered regions on a version, oldest first."""
    rows = _rows(settings, "plans.acks", job, ("version", "=", version))
    own = [row for row in rows if row.get("region_id") is not None]
    return sorted(own, key=lambda row: row["acked_at"])


def of_region(acks: Sequence[Row], region_id: str | None = None) -> list[Row]:
    """The words of one region; without one, those of the job's operators.

    A table of an earlier version has the words of operators alone.
    """
    return [row for row in acks if row.get("region_id") == region_id]


def read_outcomes(settings: Settings, job: str, version: int | None = None) -> list[Row]:
    """Promised against measured, oldest measurement first."""
    where = [("version", "=", version)] if version is not None else []
    rows = _rows(settings, "plans.outcomes", job, *where)
    return sorted(rows, key=lambda row: (row["measured_at"], row["figure"]))


def _rows(settings: Settings, table: str, job: str, *where: tuple[str, str, Any]) -> list[Row]:
    if not table_exists(settings, table):
        return []
    return list(read_rows(settings, table, job=job, where=where).to_pylist())
