"""Put a draft that waits into words: ``spark-submit spark_jobs/prepare.py --job J --run-id R ...``.

The words are handed to the task, whose XCom is the body of the approval. A draft that is not the
one asked for, or that has gone stale already, is refused before anybody is bothered.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from ballast.contracts.errors import NotFound
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from ballast.store.plans import read_log
from solvers.model.problem import Problem
from solvers.verify.scaling import scaled_problem
from spark_jobs.draft.lookup import find_snapshot, read_content, read_round, required_draft
from spark_jobs.draft.problem import Row
from spark_jobs.draft.round import Round
from spark_jobs.program.arguments import add_run_arguments
from spark_jobs.program.run import progress, run_program
from spark_jobs.publication.answer_arguments import add_content_arguments, matching
from spark_jobs.publication.review_text import loads_of_nodes, moves_of, review_body, subject
from spark_jobs.publication.staleness import why_stale
from spark_jobs.publication.versions import (
    check_changes,
    check_draft,
    check_not_superseded,
    head_of,
    plan_event,
    stale,
)
from spark_jobs.warehouse.plan_log import append_event

BY_HAND = "a person asked for the review"


def prepare_review(
    settings: Settings, job: str, run_id: str, plan_id: str, content_hash: str, page: str
) -> dict[str, str]:
    """Subject and body of the draft's review, and a line in the log that it waits."""
    snapshot = find_snapshot(settings, job, run_id)
    draft = required_draft(settings, snapshot)
    if (draft["plan_id"], draft["content_hash"]) != (plan_id, content_hash):
        raise NotFound(
            f"the draft of run {run_id} is plan {draft['plan_id']} with content "
            f"{draft['content_hash'][:16]}, not plan {plan_id} with {content_hash[:16]}",
            value=plan_id, remedy=f"see `ballast plans list {job}`",
        )  # fmt: skip
    wanted = head_of(draft, datetime.now(UTC))
    check_changes(settings, draft)
    check_not_superseded(settings, wanted)
    reasons = why_stale(settings, snapshot, draft)
    if reasons:
        raise stale(settings, wanted, reasons)
    check_draft(settings, snapshot, draft)
    append_event(settings, plan_event("waiting", wanted, BY_HAND))
    assignment, _, scaling, _ = read_content(settings, draft)
    loads = loads_of_nodes(_problem_under(read_round(settings, snapshot), scaling), assignment)
    asked = _why_asked(settings, draft)
    body = review_body(draft, loads, moves_of(assignment), asked, page, scaling)
    return {"subject": subject(draft), "body": body}


def _problem_under(given: Round, scaling: Sequence[Row]) -> Problem:
    """The problem with the nodes that the plan leaves the job with."""
    if not scaling:
        return given.problem
    return scaled_problem(given.problem, given.scaling_rules, scaling)


def _why_asked(settings: Settings, draft: Row) -> list[str]:
    rows = [
        row["reason"]
        for row in read_log(settings, draft["job"])
        if (row["event"], row["plan_id"]) == ("waiting", draft["plan_id"])
    ]
    return rows[:1]


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``prepare``."""
    add_run_arguments(parser)
    add_content_arguments(parser)
    parser.add_argument(
        "--page", type=matching("path", r"/[A-Za-z0-9/_.-]{0,200}"), default="/ballast/",
        help="path of the review page",
    )  # fmt: skip


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``prepare`` as the command line asks for it."""
    text = prepare_review(
        settings, arguments.job, arguments.run_id, arguments.plan_id, arguments.content_hash,
        arguments.page,
    )  # fmt: skip
    progress.info("%s", text["subject"])
    write_task_result(**text)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("prepare", "Put a draft into words for a review.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
