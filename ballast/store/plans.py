"""Reads plans: the head of a job, the content and figures of a plan, the log and the outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from deltalake import DeltaTable

from ballast.contracts.errors import NotFound
from ballast.contracts.identity import Split
from ballast.contracts.log_events import (
    PLANNING_RESUMED,
    PLANNING_STOPPED,
    REVIEW_ENDS,
    RUN_SUCCEEDED,
    VERSION_EVENTS,
    WAITING,
)
from ballast.contracts.records import (
    Ack,
    AssignedKeyGroup,
    Draft,
    Head,
    LogEntry,
    Outcome,
    Promise,
    Record,
    ScalingRow,
    WorkerWeight,
)
from ballast.contracts.settings import Settings
from ballast.store.tables import Filter, open_table, read_rows, rows_of, table_exists

T = TypeVar("T", bound=Record)


def read_head(settings: Settings, job: str) -> Head | None:
    """Return the head of a job; None before its first plan."""
    if not table_exists(settings, "plans.heads"):
        return None
    return head_in(open_table(settings, "plans.heads"), job)


def head_in(heads: DeltaTable, job: str) -> Head | None:
    """Return the head of a job from plans.heads as opened; None before its first plan."""
    rows = rows_of(heads, job).to_pylist()
    return Head.from_row(rows[0]) if rows else None


def read_assignment(settings: Settings, job: str, plan_id: str) -> list[AssignedKeyGroup]:
    """Return the placement of a plan, sorted by operator and key group."""
    rows = _records(AssignedKeyGroup, settings, job, ("plan_id", "=", plan_id))
    return sorted(rows, key=lambda row: (row.operator_id, row.key_group))


def read_routes(settings: Settings, job: str, plan_id: str) -> list[tuple[str, str, int]]:
    """Return the routes of a plan as (operator_id, key, key_group), in no order.

    They are tuples and not records, because a plan may have a million.
    """
    if not table_exists(settings, "plans.routes"):
        return []
    columns = ["operator_id", "key", "key_group"]
    where = [("plan_id", "=", plan_id)]
    found = read_rows(settings, "plans.routes", job=job, where=where, columns=columns)
    return list(zip(*(found[name].to_pylist() for name in columns), strict=True))


def read_splits(settings: Settings, job: str, plan_id: str) -> list[Split]:
    """Return the splits of a plan as (operator_id, key, key_group), a row for each part; sorted."""
    if not table_exists(settings, "plans.splits"):
        return []
    columns = ["operator_id", "key", "key_group"]
    where = [("plan_id", "=", plan_id)]
    found = read_rows(settings, "plans.splits", job=job, where=where, columns=columns)
    return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))


def read_scaling(settings: Settings, job: str, plan_id: str) -> list[ScalingRow]:
    """Return the rows of plans.scaling of a plan; none where the job is not scaled."""
    return _records(ScalingRow, settings, job, ("plan_id", "=", plan_id))


def read_weights(settings: Settings, job: str, plan_id: str) -> list[WorkerWeight]:
    """Return the weights of a plan, sorted by region and worker; none without ordered regions."""
    rows = _records(WorkerWeight, settings, job, ("plan_id", "=", plan_id))
    return sorted(rows, key=lambda row: (row.region_id, row.worker_id))


def read_plan(settings: Settings, job: str, plan_id: str) -> Draft:
    """Return the figures of a plan: what it promises and costs.

    Raises:
        NotFound: the job has no such plan.
    """
    rows = _records(Draft, settings, job, ("plan_id", "=", plan_id))
    if not rows:
        raise NotFound(
            f"job {job} has no plan {plan_id}", value=plan_id,
            remedy=f"see `ballast plans list {job}`",
        )  # fmt: skip
    return rows[0]


def read_plans(settings: Settings, job: str) -> list[Draft]:
    """Return every draft of a job, oldest first."""
    return sorted(_records(Draft, settings, job), key=lambda row: row.created_at)


def read_promises(settings: Settings, job: str, plan_id: str) -> list[Promise]:
    """Return what a plan promises, sorted by figure; none for a plan of an earlier version."""
    rows = _records(Promise, settings, job, ("plan_id", "=", plan_id))
    return sorted(rows, key=lambda row: row.figure)


def read_log(settings: Settings, job: str) -> list[LogEntry]:
    """Return the log of a job's plans, oldest entry first."""
    return sorted(_records(LogEntry, settings, job), key=lambda row: row.at)


def versions_of(log: Sequence[LogEntry], head: Head | None) -> dict[int, str]:
    """Return the plan id of every version.

    The version of the head is included even if its entry in the log is still missing.
    """
    versions = {
        row.version: row.plan_id
        for row in log
        if row.event in VERSION_EVENTS and row.version is not None and row.plan_id is not None
    }
    return versions | ({head.version: head.plan_id} if head else {})


def waiting_plans(log: Sequence[LogEntry]) -> list[LogEntry]:
    """Return the ``waiting`` entries of plans that still wait for a person, oldest first."""
    ended = {row.plan_id for row in log if row.event in REVIEW_ENDS}
    waiting = [row for row in log if row.event == WAITING and row.plan_id not in ended]
    return list({row.plan_id: row for row in waiting}.values())


def over_since(log: Sequence[LogEntry], trouble: LogEntry) -> datetime | None:
    """Return when the trouble ended: a later run succeeded, or planning was resumed.

    Args:
        log: the log, oldest entry first.
        trouble: an entry of the log that stopped a run, or all runs.

    Returns:
        The time; None if the trouble lasts.
    """
    # A stopped job still publishes what must leave dead nodes.
    ends = (PLANNING_RESUMED,) if trouble.event == PLANNING_STOPPED else RUN_SUCCEEDED
    return next((row.at for row in log if row.at > trouble.at and row.event in ends), None)


def read_acks(
    settings: Settings, job: str, version: int | None = None, region_id: str | None = None
) -> list[Ack]:
    """Return the acknowledgements of a job, oldest first.

    Args:
        settings: where the warehouse is.
        job: the job.
        version: the version; all versions by default.
        region_id: an ordered region; the operators of the job by default.
    """
    where = [("version", "=", version)] if version is not None else []
    rows = of_region(_records(Ack, settings, job, *where), region_id)
    return sorted(rows, key=lambda row: row.acked_at)


def of_region(acks: Sequence[Ack], region_id: str | None = None) -> list[Ack]:
    """Return the acknowledgements of a region; without one, those of the job's operators.

    A table of an earlier version has only those of operators.
    """
    return [row for row in acks if row.region_id == region_id]


def read_outcomes(
    settings: Settings, job: str, version: int | None = None, figures: Sequence[str] = ()
) -> list[Outcome]:
    """Return promised and measured figures, oldest first.

    Args:
        settings: where the warehouse is.
        job: the job.
        version: the version; all versions by default.
        figures: names of figures; all by default. Every run adds a row for each node, so whoever
            reads all versions should name what it needs.
    """
    where: list[Filter] = [("version", "=", version)] if version is not None else []
    where += [("figure", "in", list(figures))] if figures else []
    rows = _records(Outcome, settings, job, *where)
    return sorted(rows, key=lambda row: (row.measured_at, row.figure))


def _records(kind: type[T], settings: Settings, job: str, *where: tuple[str, str, Any]) -> list[T]:
    if not table_exists(settings, kind.table):
        return []
    rows = read_rows(settings, kind.table, job=job, where=where).to_pylist()
    return [kind.from_row(row) for row in rows]
