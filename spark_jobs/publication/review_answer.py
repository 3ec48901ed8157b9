"""Carry out the answer to a review: publish exactly what was approved, or leave what is in force.

What is published is checked against the content hash that the person saw, and against the job as
it is now: a plan that has gone stale while it waited is refused with the reason (docs/adr/0040).
"""

from __future__ import annotations

from ballast.contracts.errors import VerificationFailed
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from spark_jobs.draft.lookup import find_snapshot, read_content, required_draft
from spark_jobs.draft.plan_rows import content_hash_of
from spark_jobs.draft.problem import Row
from spark_jobs.program.run import progress
from spark_jobs.publication.answer_arguments import APPROVED, ReviewAnswer
from spark_jobs.publication.staleness import why_stale
from spark_jobs.publication.versions import (
    already_published,
    check_changes,
    check_draft,
    check_not_superseded,
    check_parent,
    hand_on_published,
    head_of,
    plan_event,
    put_in_force,
    stale,
)
from spark_jobs.warehouse.plan_log import Event, append_event


def publish_reviewed(
    settings: Settings, job: str, run_id: str, answer: ReviewAnswer
) -> Head | None:
    """Write the answer down and publish what was approved; None where nothing was."""
    snapshot = find_snapshot(settings, job, run_id)
    draft = required_draft(settings, snapshot)
    log_answer(settings, draft, answer)
    if answer.word != APPROVED:
        progress.info("plan %s: %s", draft["plan_id"], answer.in_words)
        write_task_result(outcome=answer.word, plan_id=draft["plan_id"], text=answer.in_words)
        return None
    wanted = head_of(draft, answer.at)
    check_is_approved(settings, draft, wanted, answer)
    if already_published(settings, wanted):
        hand_on_published(wanted)
        return wanted
    check_changes(settings, draft)
    check_not_superseded(settings, wanted)
    reasons = why_stale(settings, snapshot, draft)
    if reasons:
        raise stale(settings, wanted, reasons)
    check_draft(settings, snapshot, draft)
    check_parent(settings, wanted)
    return put_in_force(settings, wanted)


def log_answer(settings: Settings, draft: Row, answer: ReviewAnswer) -> None:
    """Who said what of which plan, and when: once for a run of the review."""
    event = Event(
        draft["job"], answer.word, answer.review_run_id, answer.by, answer.in_words,
        plan_id=draft["plan_id"],
    )  # fmt: skip
    append_event(settings, event, at=answer.at)


def check_is_approved(settings: Settings, draft: Row, wanted: Head, answer: ReviewAnswer) -> None:
    """Raise unless the stored rows are, byte for byte, the content that was approved."""
    found = content_hash_of(*read_content(settings, draft))
    is_same = (draft["plan_id"], draft["content_hash"], found) == (
        answer.plan_id, answer.content_hash, answer.content_hash)  # fmt: skip
    if is_same:
        return
    said = (
        f"plan {answer.plan_id} with content {answer.content_hash[:16]} was approved, the draft "
        f"of the run is plan {draft['plan_id']} with content {found[:16]}"
    )
    append_event(settings, plan_event("refused", wanted, f"not what was approved: {said}"))
    raise VerificationFailed(
        f"{said}; nothing was published; to fix it: find out who changed the draft, then start a "
        "new run"
    )
