"""Checks before a draft comes into force. Each one logs the refusal and raises, or returns."""

from __future__ import annotations

from datetime import UTC, datetime

from ballast.contracts.errors import (
    InvalidInput,
    PlanFrozen,
    PlanStale,
    PublishConflict,
    VerificationFailed,
)
from ballast.contracts.freeze import freeze_text
from ballast.contracts.log_events import FROZEN
from ballast.contracts.policy import policy_from_json
from ballast.contracts.records import Draft, Head, Snapshot
from ballast.contracts.settings import Settings
from ballast.store.plans import read_head, read_promises
from spark_jobs.draft.content import content_hash_of
from spark_jobs.draft.draft_tables import read_content, read_round
from spark_jobs.draft.verification import missing_promises, violations_of
from spark_jobs.program.run import progress
from spark_jobs.publication.current_state import read_current_state
from spark_jobs.publication.freeze_check import freeze_of_draft
from spark_jobs.publication.heads import current_version, head_of
from spark_jobs.publication.plan_events import log_plan_event, log_published, superseded_entry
from spark_jobs.publication.review_answer import ReviewAnswer
from spark_jobs.publication.staleness import ComparedContent, stale_reasons


def check_promises(settings: Settings, snapshot: Snapshot, draft: Draft) -> None:
    """Recompute the content hash and every promised figure from the stored rows.

    Raises:
        VerificationFailed: the stored rows do not keep what the draft promises.
    """
    promises = read_promises(settings, draft.job, draft.plan_id)
    violations = missing_promises(draft, promises) + violations_of(
        read_round(settings, snapshot), draft, read_content(settings, draft), promises
    )
    if not violations:
        progress.info("verified plan %s: its rows keep what was computed again", draft.plan_id)
        return
    broken = "; ".join(map(str, violations))
    _log_refused(settings, draft, f"verification failed: {broken}")
    raise VerificationFailed(
        f"plan {draft.plan_id} of job {draft.job} breaks its promises: {broken}; it was not "
        "published; to fix it: start a new run, and report this as a bug"
    )


def check_changes_something(settings: Settings, draft: Draft) -> None:
    """Raise InvalidInput if the draft changes nothing: there is nothing to publish."""
    if draft.status != "unchanged":
        return
    message = f"plan {draft.plan_id} of job {draft.job} changes nothing: {draft.reason}"
    _log_refused(settings, draft, message)
    raise InvalidInput(
        f"{message}; nothing was published", value=draft.plan_id,
        allowed="a draft whose status is not unchanged",
        remedy=f"choose one of `ballast plans list {draft.job}`",
    )  # fmt: skip


def check_approved_content(settings: Settings, draft: Draft, answer: ReviewAnswer) -> None:
    """Raise VerificationFailed unless the stored rows are exactly the approved content."""
    found = content_hash_of(read_content(settings, draft))
    approved = (answer.plan_id, answer.content_hash, answer.content_hash)
    if (draft.plan_id, draft.content_hash, found) == approved:
        return
    message = (
        f"plan {answer.plan_id} with content {answer.content_hash[:16]} was approved, the draft "
        f"of the run is plan {draft.plan_id} with content {found[:16]}"
    )
    _log_refused(settings, draft, f"not what was approved: {message}")
    raise VerificationFailed(
        f"{message}; nothing was published; to fix it: find out who changed the draft, then start "
        "a new run"
    )


def check_not_frozen(settings: Settings, snapshot: Snapshot, draft: Draft, now: datetime) -> None:
    """Raise PlanFrozen if the job's policy has a freeze at ``now``."""
    freeze = freeze_of_draft(settings, snapshot, draft, now)
    if freeze is None:
        return
    text = freeze_text(freeze)
    log_plan_event(settings, FROZEN, head_of(draft, now), f"approved and not published: {text}")
    raise PlanFrozen(
        f"plan {draft.plan_id} of job {draft.job} is approved and not published: {text}; to fix "
        "it: run this task again after that, or let the next run make a new plan; if it cannot "
        "wait, take the freeze out of the policy"
    )


def check_not_superseded(settings: Settings, draft: Draft) -> None:
    """Raise PlanStale if a newer draft has replaced the plan while it waited."""
    entry = superseded_entry(settings, draft.job, draft.plan_id)
    if entry is not None:
        raise _stale(settings, draft, [entry.reason])


def check_not_stale(settings: Settings, snapshot: Snapshot, draft: Draft) -> None:
    """Raise PlanStale if the job has changed too much since the draft's snapshot."""
    reasons = reasons_stale_now(settings, snapshot, draft)
    if reasons:
        raise _stale(settings, draft, reasons)


def reasons_stale_now(settings: Settings, snapshot: Snapshot, draft: Draft) -> list[str]:
    """What has changed too much since the draft's snapshot; empty if the draft still fits."""
    assignment, _, scaling, weights, _ = read_content(settings, draft)
    policy = policy_from_json(snapshot.policy_json)
    state = read_current_state(settings, policy, snapshot)
    return stale_reasons(draft, ComparedContent(assignment, scaling, weights), state)


def check_parent(settings: Settings, wanted: Head) -> None:
    """Raise PublishConflict if the version that the draft was made against is not in force.

    The log of the head in force is completed first: its publisher may have died before it wrote
    the row, and no process reads that head again once it is replaced.
    """
    head = read_head(settings, wanted.job)
    if head is not None:
        log_published(settings, head, f"completed by run {wanted.run_id}")
    if current_version(head) != wanted.version - 1:
        raise conflict(settings, wanted, head)


def conflict(settings: Settings, wanted: Head, head: Head | None) -> PublishConflict:
    """Log that another head is in force, and return the error to raise."""
    if head is None:
        found = "the job has no head"
    else:
        # The publisher of that head may have died before it wrote the row.
        log_published(settings, head, f"completed by run {wanted.run_id}")
        found = f"version {head.version}, plan {head.plan_id} of run {head.run_id}, is in force"
    message = f"plan {wanted.plan_id} was made against version {wanted.version - 1}, but {found}"
    log_plan_event(settings, "conflict", wanted, message)
    return PublishConflict(
        f"{message}; nothing was published; to fix it: start a new run, which plans against the "
        "head"
    )


def _stale(settings: Settings, draft: Draft, reasons: list[str]) -> PlanStale:
    why = "; ".join(reasons)
    _log_refused(settings, draft, f"stale: {why}")
    return PlanStale(
        f"plan {draft.plan_id} of job {draft.job} is stale: {why}; nothing was published and "
        f"the plan in force stays; to fix it: let the next run of reoptimize__{draft.job} make a "
        "new plan, or start one"
    )


def _log_refused(settings: Settings, draft: Draft, reason: str) -> None:
    log_plan_event(settings, "refused", head_of(draft, datetime.now(UTC)), reason)
