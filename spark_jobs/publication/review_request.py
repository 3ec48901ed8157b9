"""The review of a draft as a person is asked for it: checks, then subject and body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ballast.contracts.errors import NotFound
from ballast.contracts.freeze import freeze_text
from ballast.contracts.records import Draft, ScalingRow, Snapshot
from ballast.contracts.settings import Settings
from ballast.store.planning import read_planning_state
from ballast.store.plans import read_promises
from solvers.model.problem import Problem
from solvers.verify.scaling import scaled_problem
from spark_jobs.draft.draft_tables import find_snapshot, read_content, read_round, required_draft
from spark_jobs.draft.round import Round
from spark_jobs.publication.draft_checks import (
    check_changes_something,
    check_not_stale,
    check_not_superseded,
    check_promises,
)
from spark_jobs.publication.freeze_check import freeze_of_draft
from spark_jobs.publication.heads import head_of
from spark_jobs.publication.plan_events import first_waiting_reason, log_plan_event
from spark_jobs.publication.review_text import (
    DraftDetails,
    loads_of_nodes,
    moves_of,
    review_body,
    subject,
)

BY_HAND = "a person asked for the review"


@dataclass(frozen=True)
class ReviewRequest:
    """What a person is asked: one line, and a text in Markdown."""

    subject: str
    body: str


def prepare_review(
    settings: Settings, job: str, run_id: str, plan_id: str, content_hash: str, page: str
) -> ReviewRequest:
    """Check the draft, log that it waits, and write the text of its review.

    Args:
        plan_id: plan that the review is about.
        content_hash: content that the review is about.
        page: path of the review page, for a link.

    Raises:
        NotFound: the run has no draft, or another one.
        InvalidInput: the draft changes nothing.
        PlanStale, VerificationFailed: the draft may not be published.
    """
    snapshot = find_snapshot(settings, job, run_id)
    draft = required_draft(settings, snapshot)
    if (draft.plan_id, draft.content_hash) != (plan_id, content_hash):
        raise NotFound(
            f"the draft of run {run_id} is plan {draft.plan_id} with content "
            f"{draft.content_hash[:16]}, not plan {plan_id} with {content_hash[:16]}",
            value=plan_id, remedy=f"see `ballast plans list {job}`",
        )  # fmt: skip
    check_changes_something(settings, draft)
    check_not_superseded(settings, draft)
    check_not_stale(settings, snapshot, draft)
    check_promises(settings, snapshot, draft)
    log_plan_event(settings, "waiting", head_of(draft, datetime.now(UTC)), BY_HAND)
    assignment, _, scaling, _, _ = read_content(settings, draft)
    problem = _problem_under(read_round(settings, snapshot), scaling)
    promises = read_promises(settings, job, plan_id)
    details = DraftDetails(
        loads_of_nodes(problem, assignment), moves_of(assignment), scaling, promises
    )
    reasons = [
        *_planning_reasons(settings, job),
        *_freeze_reasons(settings, snapshot, draft),
        *first_waiting_reason(settings, draft),
    ]
    return ReviewRequest(subject(draft), review_body(draft, details, reasons, page))


def _freeze_reasons(settings: Settings, snapshot: Snapshot, draft: Draft) -> list[str]:
    """That an approval does not publish the plan before a freeze ends; empty without a freeze."""
    freeze = freeze_of_draft(settings, snapshot, draft, datetime.now(UTC))
    return [f"nothing is published before the end of {freeze_text(freeze)}"] if freeze else []


def _planning_reasons(settings: Settings, job: str) -> list[str]:
    """What a reviewer has to be informed of if the job has stopped planning by itself."""
    state = read_planning_state(settings, job)
    return [f"planning of this job is stopped: {state.reason}"] if state.is_stopped else []


def _problem_under(planning_round: Round, scaling: Sequence[ScalingRow]) -> Problem:
    """The problem with the nodes that the job has under the plan."""
    if not scaling:
        return planning_round.problem
    return scaled_problem(planning_round.problem, planning_round.scaling_rules, scaling)
