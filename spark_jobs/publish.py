"""Put a run's draft in force: ``spark-submit spark_jobs/publish.py --job J --run-id R``.

A draft that the policy wants seen by a person is not published but waits; with ``--answer`` the
program carries out what the person said (docs/adr/0040).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from ballast.contracts.policy import policy_from_json
from ballast.contracts.process_exit import exit_now
from ballast.contracts.records import Head
from ballast.contracts.review import ReviewVerdict, review_verdict
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from spark_jobs.draft.lookup import find_snapshot, required_draft
from spark_jobs.draft.problem import Row
from spark_jobs.program.arguments import add_as_of_argument, add_run_arguments
from spark_jobs.program.run import progress, run_program
from spark_jobs.publication.answer_arguments import ReviewAnswer, add_answer_arguments
from spark_jobs.publication.review_answer import publish_reviewed
from spark_jobs.publication.versions import (
    already_published,
    answered_no,
    check_draft,
    check_not_superseded,
    check_parent,
    hand_on_published,
    head_of,
    plan_event,
    put_in_force,
    supersede_waiting,
)
from spark_jobs.warehouse.plan_log import append_event


def publish_plan(
    settings: Settings,
    job: str,
    run_id: str,
    *,
    dry_run: bool = False,
    now: datetime | None = None,
) -> Head | None:
    """Publish the run's draft; returns its head, or None where nothing was to be published.

    A head that has been published before is returned as it was, in force still or not. What a
    person has said no to, or nobody answered in time, is published by a new yes alone.
    """
    snapshot = find_snapshot(settings, job, run_id)
    draft = required_draft(settings, snapshot)
    at = now or datetime.now(UTC)
    wanted = head_of(draft, at)
    if draft["status"] == "unchanged":
        progress.info("no change: %s", draft["reason"])
        write_task_result(outcome="unchanged", text=draft["reason"])
        return None
    if dry_run:
        check_draft(settings, snapshot, draft)
        append_event(settings, plan_event("dry_run", wanted, f"would be version {wanted.version}"))
        progress.info("dry run: plan %s would be version %d", wanted.plan_id, wanted.version)
        write_task_result(outcome="dry_run", plan_id=wanted.plan_id)
        return None
    if already_published(settings, wanted):
        hand_on_published(wanted)
        return wanted
    no = answered_no(settings, wanted.job, wanted.plan_id)
    if no is not None:
        leave_as_answered(no)
        return None
    check_draft(settings, snapshot, draft)
    check_parent(settings, wanted)
    check_not_superseded(settings, wanted)
    supersede_waiting(settings, draft)
    verdict = review_verdict(draft.to_row(), policy_from_json(snapshot["policy_json"]).review, at)
    if not verdict.publish:
        wait_for_person(settings, wanted, verdict)
        return None
    return put_in_force(settings, wanted)


def leave_as_answered(no: Row) -> None:
    """Hand on what a review came to: a run that comes again does not overrule it."""
    text = f"not published, because its review ended with {no['event']}: {no['reason']}"
    progress.info("plan %s: %s", no["plan_id"], text)
    write_task_result(outcome=no["event"], plan_id=no["plan_id"], text=text)


def wait_for_person(settings: Settings, wanted: Head, verdict: ReviewVerdict) -> None:
    """Write down that the draft waits, and hand on what its review is about."""
    why = "; ".join(verdict.reasons)
    append_event(settings, plan_event("waiting", wanted, why))
    progress.info("plan %s waits for a person: %s", wanted.plan_id, why)
    write_task_result(
        outcome="waiting", plan_id=wanted.plan_id, content_hash=wanted.content_hash,
        run_id=wanted.run_id, reasons=list(verdict.reasons),
    )  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``publish``."""
    add_run_arguments(parser)
    add_as_of_argument(parser)
    add_answer_arguments(parser)
    parser.add_argument(
        "--dry-run", nargs="?", choices=("true", "false"), const="true", default="false",
        help="check and log the draft, but leave the head",
    )  # fmt: skip


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``publish`` as the command line asks for it."""
    answer = ReviewAnswer.from_arguments(arguments)
    if answer is not None:
        publish_reviewed(settings, arguments.job, arguments.run_id, answer)
        return
    publish_plan(
        settings, arguments.job, arguments.run_id,
        dry_run=arguments.dry_run == "true", now=arguments.as_of,
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("publish", "Put a run's draft in force.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
