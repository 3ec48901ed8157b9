"""The steps by which a draft comes into force, whoever asks for it: check, compare-and-set, log.

The head changes by one compare-and-set (docs/adr/0007); the log follows it. Whoever comes next
completes the log of a publisher that died in between, so a retry finds its work done.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ballast.contracts.errors import InvalidInput, PlanStale, PublishConflict, VerificationFailed
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from ballast.store.plans import read_head, read_log, read_plans, waiting_plans
from ballast.store.tables import ensure_tables
from spark_jobs.draft.lookup import read_content, read_round
from spark_jobs.draft.plan_rows import violations_of
from spark_jobs.draft.problem import Row
from spark_jobs.program.fault_points import fault_point
from spark_jobs.program.run import progress
from spark_jobs.publication.answer_arguments import REJECTED, TIMED_OUT
from spark_jobs.publication.heads import compare_and_set, is_same, when_in_force
from spark_jobs.warehouse.plan_log import (
    Event,
    append_event,
    is_logged_as_published,
    published_event,
)


def head_of(draft: Row, at: datetime) -> Head:
    """The head that the draft would be."""
    return Head(
        job=draft["job"],
        version=draft["parent_version"] + 1,
        plan_id=draft["plan_id"],
        content_hash=draft["content_hash"],
        run_id=draft["run_id"],
        published_at=at,
    )


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


def check_draft(settings: Settings, snapshot: Row, draft: Row) -> None:
    """Recompute the content's hash and every promise from what is stored; refuse a broken one."""
    given = read_round(settings, snapshot)
    violations = violations_of(given, draft, *read_content(settings, draft))
    if not violations:
        progress.info("verified plan %s: every promise holds", draft["plan_id"])
        return
    broken = "; ".join(map(str, violations))
    wanted = head_of(draft, datetime.now(UTC))
    append_event(settings, plan_event("refused", wanted, f"verification failed: {broken}"))
    raise VerificationFailed(
        f"plan {draft['plan_id']} of job {draft['job']} breaks its promises: {broken}; it was not "
        "published; to fix it: start a new run, and report this as a bug"
    )


def check_changes(settings: Settings, draft: Row) -> None:
    """Raise where the draft leaves everything as it is: there is nothing to publish."""
    if draft["status"] != "unchanged":
        return
    said = f"plan {draft['plan_id']} of job {draft['job']} changes nothing: {draft['reason']}"
    wanted = head_of(draft, datetime.now(UTC))
    append_event(settings, plan_event("refused", wanted, said))
    raise InvalidInput(
        f"{said}; nothing was published", value=draft["plan_id"],
        allowed="a draft whose status is not unchanged",
        remedy=f"choose one of `ballast plans list {draft['job']}`",
    )  # fmt: skip


def answered_no(settings: Settings, job: str, plan_id: str) -> Row | None:
    """The row of the log by which a review ended without a yes, the newest of several."""
    rows = [
        row
        for row in read_log(settings, job)
        if row["plan_id"] == plan_id and row["event"] in (REJECTED, TIMED_OUT)
    ]
    return rows[-1] if rows else None


def check_parent(settings: Settings, wanted: Head) -> None:
    """Raise where the version the draft was made against is not in force.

    Completes the log of the head about to be replaced: its publisher may have died, and once it
    is replaced nobody would look at it again.
    """
    head = read_head(settings, wanted.job)
    if head is not None:
        log_published(settings, head, f"completed by run {wanted.run_id}")
    if (head.version if head else 0) != wanted.version - 1:
        raise _conflict(settings, wanted, head)


def put_in_force(settings: Settings, wanted: Head) -> Head:
    """Compare and set, then believe what is on storage and write it down."""
    ensure_tables(settings, ["plans.heads"])
    fault_point("publish.before_cas")
    head = compare_and_set(settings, wanted)
    fault_point("publish.after_cas")
    if head is None or not is_same(head, wanted):
        # Another publisher may have replaced this one's head already.
        if already_published(settings, wanted):
            hand_on_published(wanted)
            return wanted
        raise _conflict(settings, wanted, head)
    log_published(settings, head, "compare-and-set won")
    progress.info("published plan %s as version %d", head.plan_id, head.version)
    hand_on_published(head)
    return head


def log_published(settings: Settings, head: Head, how: str, at: datetime | None = None) -> None:
    """Write down, once a version, that it came into force."""
    reason = f"plan {head.plan_id} of run {head.run_id} is version {head.version}: {how}"
    append_event(settings, published_event(head, reason), at=at or head.published_at)


def supersede_waiting(settings: Settings, draft: Row) -> None:
    """Older plans that still wait are told that a newer one is there; they are never published."""
    waiting = waiting_plans(read_log(settings, draft["job"]))
    made = {row["plan_id"]: row["created_at"] for row in read_plans(settings, draft["job"])}
    for row in waiting:
        if made[row["plan_id"]] >= draft["created_at"]:
            continue
        reason = f"plan {draft['plan_id']} of run {draft['run_id']} is newer"
        event = Event(
            draft["job"], "superseded", draft["run_id"], f"publish of run {draft['run_id']}",
            reason, plan_id=row["plan_id"],
        )  # fmt: skip
        append_event(settings, event)
        progress.info("plan %s no longer waits: %s", row["plan_id"], reason)


def check_not_superseded(settings: Settings, wanted: Head) -> None:
    """Raise where a newer draft has taken the plan's place while it waited."""
    for row in read_log(settings, wanted.job):
        if (row["event"], row["plan_id"]) == ("superseded", wanted.plan_id):
            raise stale(settings, wanted, [row["reason"]])


def stale(settings: Settings, wanted: Head, reasons: Sequence[str]) -> PlanStale:
    """Write down why the plan is too old, and say it."""
    why = "; ".join(reasons)
    append_event(settings, plan_event("refused", wanted, f"stale: {why}"))
    return PlanStale(
        f"plan {wanted.plan_id} of job {wanted.job} is stale: {why}; nothing was published and "
        f"the plan in force stays; to fix it: let the next run of reoptimize__{wanted.job} plan "
        "anew, or start one"
    )


def hand_on_published(head: Head) -> None:
    """Tell the task which version is in force by this run."""
    text = f"plan {head.plan_id} of job {head.job} is in force as version {head.version}"
    write_task_result(
        outcome="published", version=head.version, plan_id=head.plan_id,
        content_hash=head.content_hash, notice={"kind": "published", "text": text},
    )  # fmt: skip


def _conflict(settings: Settings, wanted: Head, head: Head | None) -> PublishConflict:
    """Write down who won, and say it."""
    if head is None:
        found = "the job has no head"
    else:
        # Its publisher may have died, and this reader is the last one sure to look.
        log_published(settings, head, f"completed by run {wanted.run_id}")
        found = f"version {head.version}, plan {head.plan_id} of run {head.run_id}, is in force"
    lost = f"plan {wanted.plan_id} was made against version {wanted.version - 1}, but {found}"
    append_event(settings, plan_event("conflict", wanted, lost))
    return PublishConflict(
        f"{lost}; nothing was published; to fix it: start a new run, which plans against the head"
    )


def plan_event(event: str, wanted: Head, reason: str) -> Event:
    """An event of a plan that has no version (yet)."""
    actor = f"publish of run {wanted.run_id}"
    return Event(wanted.job, event, wanted.run_id, actor, reason, plan_id=wanted.plan_id)
