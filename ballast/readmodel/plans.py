"""Summaries of a job for the review page and the command line: its state, versions and plans."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ballast.contracts import plan_text
from ballast.contracts.log_events import (
    GATE_FAILED,
    PLANNING_STOPPED,
    REFUSALS,
    REFUSED,
    TROUBLE,
)
from ballast.contracts.planning_stop import PlanningState
from ballast.contracts.records import (
    Ack,
    Draft,
    DraftSummary,
    JobWindow,
    LogEntry,
    Outcome,
    Promise,
    Snapshot,
)
from ballast.readmodel.job_history import (
    LOAD_DISTANCE,
    JobHistory,
    PlanReference,
    draft_of,
    find_plan,
    known_jobs,
    plan_in_force,
)
from ballast.readmodel.promises import (
    PromisedFigure,
    promised_figures,
    promised_load_distance,
    promises_of_plan,
)
from ballast.store.cache import TableCache
from ballast.store.plans import over_since, waiting_plans

RUNS_WITHOUT_DRAFT = (GATE_FAILED, REFUSED, PLANNING_STOPPED)


@dataclass(frozen=True)
class RefusalEntry:
    """An event of the log that stopped a plan, and since when it is over; None while it lasts."""

    entry: LogEntry
    over_since: datetime | None


@dataclass(frozen=True)
class JobSummary:
    """The state of a job: what is in force, what was promised and measured, what went wrong."""

    job: str
    version: int
    """0 before the first plan."""
    plan_id: str | None
    published_at: datetime | None
    ack: Ack | None
    """The streaming job's last answer to the version."""
    plan: DraftSummary | None
    load_distance: PromisedFigure | None
    """Promised and measured; None before the first plan."""
    plans: int
    no_change: DraftSummary | None
    """The draft of the newest run, if the run changed nothing."""
    waiting: LogEntry | None
    """The newest plan that waits for a person."""
    last_event: LogEntry | None
    last_refusal: RefusalEntry | None
    last_trouble: RefusalEntry | None
    planning: PlanningState
    """Whether the job plans by itself."""


def job_summary(history: JobHistory) -> JobSummary:
    """The state of a job."""
    head, log = history.head, history.log
    version = head.version if head else 0
    waiting = waiting_plans(log)
    plan = history.plans.get(head.plan_id) if head else None
    return JobSummary(
        job=history.job,
        version=version,
        plan_id=head.plan_id if head else None,
        published_at=head.published_at if head else None,
        ack=history.last_ack(version),
        plan=plan,
        load_distance=promised_load_distance(history, plan, version) if plan else None,
        plans=len(history.plans),
        no_change=_no_change(history),
        waiting=waiting[-1] if waiting else None,
        last_event=log[-1] if log else None,
        last_refusal=_last(log, REFUSALS),
        last_trouble=_last(log, TROUBLE),
        planning=history.planning,
    )


def _last(log: list[LogEntry], events: tuple[str, ...]) -> RefusalEntry | None:
    found = [entry for entry in log if entry.event in events]
    return RefusalEntry(found[-1], over_since(log, found[-1])) if found else None


def _no_change(history: JobHistory) -> DraftSummary | None:
    """The newest draft, if it changes nothing and no later run ended without a draft."""
    newest = next(reversed(history.plans.values()), None)
    if newest is None or newest.status != "unchanged":
        return None
    is_newest_run = not any(
        entry.event in RUNS_WITHOUT_DRAFT
        and entry.run_id != newest.run_id
        and entry.at > newest.created_at
        for entry in history.log
    )
    return newest if is_newest_run else None


def newest_window(cache: TableCache, job: str) -> datetime | None:
    """The end of the newest window that the job wrote; None before the first."""
    found = cache.read("metrics.nodes", job, (), ["window_end_at"])
    if found is None:
        return None
    values = [value for value in found["window_end_at"].to_pylist() if value is not None]
    return max(values, default=None)


def newest_job_window(cache: TableCache, job: str, now: datetime) -> JobWindow | None:
    """The state of the job in its newest window; None if it wrote none within two days."""
    since = (now - timedelta(days=1)).date()
    windows = cache.read_records(JobWindow, job, ("window_date", ">=", since))
    return max(windows, key=lambda window: window.window_end_at, default=None)


@dataclass(frozen=True)
class VersionSummary:
    """A version: the event that brought it, what its plan promised, and what was measured."""

    version: int
    in_force: bool
    event: LogEntry
    approved_by: str | None
    ack: Ack | None
    plan: DraftSummary | None
    load_distance: PromisedFigure | None
    """Promised and measured; None where the row of the plan is missing."""


def version_summaries(history: JobHistory) -> list[VersionSummary]:
    """Every version, oldest first."""
    return [_version_summary(history, version) for version in history.versions]


def _version_summary(history: JobHistory, version: int) -> VersionSummary:
    event = history.versions[version]
    plan = history.plans.get(str(event.plan_id))
    return VersionSummary(
        version=version,
        in_force=history.is_in_force(version),
        event=event,
        approved_by=history.approver(str(event.plan_id), version),
        ack=history.last_ack(version),
        plan=plan,
        load_distance=promised_load_distance(history, plan, version) if plan else None,
    )


@dataclass(frozen=True)
class PlanSummary:
    """A draft, its version if it was published, and its last event if the log has one."""

    plan: DraftSummary
    version: int | None
    in_force: bool
    last_event: LogEntry | None
    load_distance: PromisedFigure


def plan_summaries(history: JobHistory) -> list[PlanSummary]:
    """Every draft, oldest first."""
    versions = {event.plan_id: version for version, event in history.versions.items()}
    last = {entry.plan_id: entry for entry in history.log if entry.plan_id}
    return [
        PlanSummary(
            plan=plan,
            version=versions.get(plan_id),
            in_force=history.head is not None and history.head.plan_id == plan_id,
            last_event=last.get(plan_id),
            load_distance=promised_load_distance(history, plan, versions.get(plan_id)),
        )
        for plan_id, plan in history.plans.items()
    ]


def unpublished_drafts(history: JobHistory, limit: int) -> list[PlanSummary]:
    """The newest plans that never came into force, newest first."""
    drafts = [summary for summary in plan_summaries(history) if summary.version is None]
    return drafts[::-1][:limit]


@dataclass(frozen=True)
class PlanDetail:
    """A plan: what it promises and costs, what was measured, and what happened to it."""

    job: str
    version: int | None
    """None for a draft that was not published."""
    versions: tuple[int, ...]
    in_force: bool
    approved_by: str | None
    plan: Draft
    acks: list[Ack]
    region_acks: list[Ack]
    outcomes: list[Outcome]
    promises: list[Promise]
    figures: list[PromisedFigure]
    """Promised and measured; the load distance is the first."""
    log: list[LogEntry]

    @property
    def reason(self) -> str:
        """Why the plan does what it does."""
        promise = next((row for row in self.promises if row.figure == LOAD_DISTANCE), None)
        return plan_text.plan_reason(self.plan, promise)

    @property
    def quality(self) -> str:
        """How close the plan is to the best possible."""
        return plan_text.plan_quality_text(self.plan)

    @property
    def progress(self) -> str:
        """How the load distance fell while the solver ran."""
        return plan_text.progress_text(self.plan.trace_json)

    @property
    def held_back(self) -> list[str]:
        """Moves that save less than they cost."""
        return plan_text.held_back_lines(plan_text.held_back_entries(self.plan.held_back_json))


def plan_detail(history: JobHistory, name: str | None = None) -> PlanDetail:
    """The plan of a version or of a plan id; without a name, the plan in force."""
    found: PlanReference = plan_in_force(history) if name is None else find_plan(history, name)
    plan = draft_of(history, found.plan_id)
    promises = promises_of_plan(history, found.plan_id)
    return PlanDetail(
        job=history.job,
        version=found.version,
        versions=tuple(history.versions),
        in_force=history.is_in_force(found.version),
        approved_by=history.approver(found.plan_id, found.version),
        plan=plan,
        acks=[ack for ack in history.acks if ack.version == found.version],
        region_acks=[ack for ack in history.region_acks if ack.version == found.version],
        outcomes=history.newest_outcomes(found.version),
        promises=promises,
        figures=promised_figures(history, plan, found.version, promises),
        log=[entry for entry in history.log if entry.plan_id == found.plan_id],
    )


def read_ahead(cache: TableCache) -> None:
    """Read the small tables of every job once, so that the first person does not wait for it."""
    for job in known_jobs(cache):
        job_summary(JobHistory(cache, job))
        cache.records(Snapshot, job)
