"""The order of steps by which a draft comes into force: check, compare-and-set, log.

The head changes by one compare-and-set (ADR 7), and the log row follows it. The next
process that finds the row missing adds it, so a retry after a crash finds its work done. A draft
that the policy wants a person to see waits for an answer (ADR 40).
"""

from __future__ import annotations

from datetime import UTC, datetime

from ballast.contracts.fault_points import fault_point
from ballast.contracts.freeze import freeze_text
from ballast.contracts.log_events import FROZEN, PLANNING_STOPPED
from ballast.contracts.policy import policy_from_json
from ballast.contracts.records import Draft, Head, LogEntry, Snapshot
from ballast.contracts.review import ReviewVerdict, review_verdict
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import Notice, write_task_notices, write_task_result
from ballast.store.planning import read_planning_state
from ballast.store.plans import read_head
from spark_jobs.draft.draft_tables import find_snapshot, required_draft
from spark_jobs.program.run import progress
from spark_jobs.publication.draft_checks import (
    check_approved_content,
    check_changes_something,
    check_not_frozen,
    check_not_stale,
    check_not_superseded,
    check_parent,
    check_promises,
    conflict,
)
from spark_jobs.publication.freeze_check import freeze_of_draft
from spark_jobs.publication.heads import compare_and_set, head_of, is_same, when_in_force
from spark_jobs.publication.plan_events import (
    log_answer,
    log_plan_event,
    log_published,
    log_superseded_plans,
    negative_answer,
)
from spark_jobs.publication.review_answer import APPROVED, ReviewAnswer
from spark_jobs.warehouse.plan_log import is_logged_as_published


def publish_plan(
    settings: Settings,
    job: str,
    run_id: str,
    *,
    dry_run: bool = False,
    now: datetime | None = None,
) -> Head | None:
    """Publish a run's draft.

    A plan that a review rejected, or that nobody answered for in time, is not published again
    without a new approval. A job that has stopped planning by itself publishes forced moves alone,
    and so does a job in a freeze.

    Args:
        dry_run: check the draft and log the result, but leave the head.
        now: the time by which the review policy decides; the current time if None.

    Returns:
        The head, also if an earlier attempt published it; None if nothing is to be published.

    Raises:
        NotFound: the run has no snapshot or no draft.
        VerificationFailed, PlanStale, PublishConflict: the draft may not be published.
    """
    snapshot = find_snapshot(settings, job, run_id)
    draft = required_draft(settings, snapshot)
    at = now or datetime.now(UTC)
    wanted = head_of(draft, at)
    if draft.status == "unchanged":
        progress.info("no change: %s", draft.reason)
        write_task_result(outcome="unchanged", text=draft.reason)
        return None
    if dry_run:
        _dry_run(settings, snapshot, draft, wanted)
        return None
    if already_published(settings, wanted):
        _report_published(wanted)
        return wanted
    answered = negative_answer(settings, job, draft.plan_id)
    if answered is not None:
        _report_answered(answered)
        return None
    if _is_stopped(settings, draft) or _is_frozen(settings, snapshot, draft, wanted):
        return None
    check_promises(settings, snapshot, draft)
    check_parent(settings, wanted)
    check_not_superseded(settings, draft)
    log_superseded_plans(settings, draft)
    verdict = review_verdict(draft, policy_from_json(snapshot.policy_json).review, at)
    if not verdict.publish:
        _wait_for_review(settings, wanted, verdict)
        return None
    return put_in_force(settings, wanted)


def publish_reviewed(
    settings: Settings, job: str, run_id: str, answer: ReviewAnswer
) -> Head | None:
    """Log the answer to a review, and publish exactly what was approved.

    The stored rows are compared with the content hash that the person saw, and the draft with the
    job as it is now.

    Returns:
        The head; None if the draft was rejected or nobody answered in time.

    Raises:
        VerificationFailed: the draft is not the approved content, or breaks its promises.
        InvalidInput: the draft changes nothing.
        PlanFrozen: the job's policy has a freeze now.
        PlanStale, PublishConflict: the draft no longer fits the job, or another head is in force.
    """
    snapshot = find_snapshot(settings, job, run_id)
    draft = required_draft(settings, snapshot)
    log_answer(settings, draft, answer)
    if answer.decision != APPROVED:
        progress.info("plan %s: %s", draft.plan_id, answer.summary)
        write_task_result(outcome=answer.decision, plan_id=draft.plan_id, text=answer.summary)
        return None
    wanted = head_of(draft, answer.at)
    check_approved_content(settings, draft, answer)
    if already_published(settings, wanted):
        _report_published(wanted)
        return wanted
    check_changes_something(settings, draft)
    check_not_frozen(settings, snapshot, draft, answer.at)
    check_not_superseded(settings, draft)
    check_not_stale(settings, snapshot, draft)
    check_promises(settings, snapshot, draft)
    check_parent(settings, wanted)
    return put_in_force(settings, wanted)


def already_published(settings: Settings, wanted: Head) -> bool:
    """Whether an earlier attempt of this run put the draft in force; completes its log."""
    head = read_head(settings, wanted.job)
    if head is None or head.version < wanted.version:
        return False
    if is_same(head, wanted):
        log_published(settings, head, "found in force")
        progress.info("plan %s is in force as version %d", head.plan_id, head.version)
        return True
    at = when_in_force(settings, wanted)
    if at is None and not is_logged_as_published(settings, wanted):
        return False
    log_published(settings, wanted, "found in the history of the heads", at)
    progress.info(
        "plan %s was published as version %d; version %d, plan %s, has replaced it since",
        wanted.plan_id, wanted.version, head.version, head.plan_id,
    )  # fmt: skip
    return True


def put_in_force(settings: Settings, wanted: Head) -> Head:
    """Change the head by compare-and-set, then log the version that is in force.

    Raises:
        PublishConflict: another plan came into force first.
    """
    fault_point("publish.before_cas")
    head = compare_and_set(settings, wanted)
    fault_point("publish.after_cas")
    if head is None or not is_same(head, wanted):
        # Another publisher may have replaced this head already.
        if already_published(settings, wanted):
            _report_published(wanted)
            return wanted
        raise conflict(settings, wanted, head)
    log_published(settings, head, "compare-and-set won")
    progress.info("published plan %s as version %d", head.plan_id, head.version)
    _report_published(head)
    return head


def _dry_run(settings: Settings, snapshot: Snapshot, draft: Draft, wanted: Head) -> None:
    check_promises(settings, snapshot, draft)
    log_plan_event(settings, "dry_run", wanted, f"would be version {wanted.version}")
    progress.info("dry run: plan %s would be version %d", wanted.plan_id, wanted.version)
    write_task_result(outcome="dry_run", plan_id=wanted.plan_id)


def _wait_for_review(settings: Settings, wanted: Head, verdict: ReviewVerdict) -> None:
    """Log that the draft waits, and give the task what the review needs."""
    why = "; ".join(verdict.reasons)
    log_plan_event(settings, "waiting", wanted, why)
    progress.info("plan %s waits for a person: %s", wanted.plan_id, why)
    write_task_result(
        outcome="waiting", plan_id=wanted.plan_id, content_hash=wanted.content_hash,
        run_id=wanted.run_id, reasons=list(verdict.reasons),
    )  # fmt: skip


def _is_stopped(settings: Settings, draft: Draft) -> bool:
    """Whether planning has stopped since the draft was made, so that it is not published.

    What must leave dead nodes is published even then (ADR 60).
    """
    state = read_planning_state(settings, draft.job)
    if not state.is_stopped or draft.forced_moves:
        return False
    text = f"planning has stopped since plan {draft.plan_id} was made: {state.reason}"
    progress.info("not published, %s", text)
    write_task_result(outcome=PLANNING_STOPPED, plan_id=draft.plan_id, text=text)
    return True


def _is_frozen(settings: Settings, snapshot: Snapshot, draft: Draft, wanted: Head) -> bool:
    """Log that the draft is not published because of a freeze, and report it; False without one."""
    freeze = freeze_of_draft(settings, snapshot, draft, wanted.published_at)
    if freeze is None:
        return False
    text = f"not published: {freeze_text(freeze)}; a run after it makes a new plan"
    log_plan_event(settings, FROZEN, wanted, text)
    progress.info("plan %s is %s", draft.plan_id, text)
    write_task_result(outcome=FROZEN, plan_id=draft.plan_id, text=text)
    return True


def _report_answered(answered: LogEntry) -> None:
    """Give the task the result of the review; a repeated run does not change it."""
    text = f"not published, because its review ended with {answered.event}: {answered.reason}"
    progress.info("plan %s: %s", answered.plan_id, text)
    write_task_result(outcome=answered.event, plan_id=answered.plan_id, text=text)


def _report_published(head: Head) -> None:
    """Give the task the version that this run put in force."""
    text = f"plan {head.plan_id} of job {head.job} is in force as version {head.version}"
    write_task_result(
        outcome="published", version=head.version, plan_id=head.plan_id,
        content_hash=head.content_hash,
    )  # fmt: skip
    write_task_notices(Notice("published", text))
