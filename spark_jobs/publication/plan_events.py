"""Rows of ``plans.log`` that ``prepare`` and ``publish`` write and read."""

from __future__ import annotations

from datetime import datetime

from ballast.contracts.records import Draft, Head, LogEntry
from ballast.contracts.settings import Settings
from ballast.store.plans import read_log, read_plans, waiting_plans
from spark_jobs.program.run import progress
from spark_jobs.publication.review_answer import REJECTED, TIMED_OUT, ReviewAnswer
from spark_jobs.warehouse.plan_log import Event, append_event, published_event


def log_plan_event(settings: Settings, event: str, wanted: Head, reason: str) -> None:
    """Log an event of a plan that has no version yet: waiting, refused, conflict or dry_run."""
    actor = f"publish of run {wanted.run_id}"
    entry = Event(wanted.job, event, wanted.run_id, actor, reason, plan_id=wanted.plan_id)
    append_event(settings, entry)


def log_published(settings: Settings, head: Head, how: str, at: datetime | None = None) -> None:
    """Log that a version came into force; one row a version, however often this is called."""
    reason = f"plan {head.plan_id} of run {head.run_id} is version {head.version}: {how}"
    append_event(settings, published_event(head, reason), at=at or head.published_at)


def log_answer(settings: Settings, draft: Draft, answer: ReviewAnswer) -> None:
    """Log who answered what about which plan, and when; one row a run of the review."""
    event = Event(
        draft.job, answer.decision, answer.review_run_id, answer.by, answer.summary,
        plan_id=draft.plan_id,
    )  # fmt: skip
    append_event(settings, event, at=answer.at)


def log_superseded_plans(settings: Settings, draft: Draft) -> None:
    """Log ``superseded`` for every older plan that still waits; it is then never published."""
    created = {plan.plan_id: plan.created_at for plan in read_plans(settings, draft.job)}
    for entry in waiting_plans(read_log(settings, draft.job)):
        if entry.plan_id is None or created[entry.plan_id] >= draft.created_at:
            continue
        reason = f"plan {draft.plan_id} of run {draft.run_id} is newer"
        event = Event(
            draft.job, "superseded", draft.run_id, f"publish of run {draft.run_id}", reason,
            plan_id=entry.plan_id,
        )  # fmt: skip
        append_event(settings, event)
        progress.info("plan %s no longer waits: %s", entry.plan_id, reason)


def negative_answer(settings: Settings, job: str, plan_id: str) -> LogEntry | None:
    """The newest row by which a review of the plan ended without approval; None if none did."""
    entries = _entries_of_plan(settings, job, plan_id)
    ended = [entry for entry in entries if entry.event in (REJECTED, TIMED_OUT)]
    return ended[-1] if ended else None


def superseded_entry(settings: Settings, job: str, plan_id: str) -> LogEntry | None:
    """The row by which a newer draft replaced a plan that waited; None if none did."""
    entries = _entries_of_plan(settings, job, plan_id)
    return next((entry for entry in entries if entry.event == "superseded"), None)


def first_waiting_reason(settings: Settings, draft: Draft) -> list[str]:
    """Why the draft waits, from its first ``waiting`` row; empty if it has none."""
    entries = _entries_of_plan(settings, draft.job, draft.plan_id)
    return [entry.reason for entry in entries if entry.event == "waiting"][:1]


def _entries_of_plan(settings: Settings, job: str, plan_id: str) -> list[LogEntry]:
    return [entry for entry in read_log(settings, job) if entry.plan_id == plan_id]
