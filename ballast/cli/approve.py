"""``ballast approve``: approve or reject a plan that waits for a person."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ballast.airflow.errors import ApiError, NothingWaiting
from ballast.airflow.rest import AirflowClient, Json
from ballast.cli.access import add_access_arguments, client_of, explained
from ballast.cli.render import print_json, text_table
from ballast.cli.runs import add_run_arguments, report_run, required_dag
from ballast.cli.terminal import print_parts
from ballast.contracts.errors import InvalidInput
from ballast.contracts.settings import check_job_name

TASK_ID = "approve"
APPROVE, REJECT = "Approve", "Reject"
# Airflow lists a question shortly before its task waits; an answer at that moment fails the run.
WAITING = frozenset({"awaiting_input", "deferred"})
# The process of a task that waits ends within a heartbeat, 5 s. If the answer comes before the
# scheduler has seen that end, the scheduler takes the task for a killed one, and the task fails.
SETTLED_AFTER_S = 12.0
EXAMPLE = """examples: ballast approve flights --show
          ballast approve flights 1f0c3b5a7d9e2468 --wait
          ballast approve flights --reject --reason 'not before the weekend'"""


@dataclass(frozen=True)
class ReviewQuestion:
    """A plan that waits for an answer."""

    run_id: str
    plan_id: str | None
    subject: str
    body: str
    asked_at: str
    takes: tuple[str, ...]
    """Names of the fields that an answer may fill in."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "approve",
        help="answer for a plan that waits for a person",
        description="Approve or reject the plan that waits in review__JOB in Airflow.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("plan", metavar="PLAN", nargs="?", help="its id; may be left out for one")
    parser.add_argument("--reject", action="store_true", help="the plan in force stays")
    parser.add_argument("--reason", default="", help="why; kept in the log of plans")
    parser.add_argument("--show", action="store_true", help="show what waits, answer nothing")
    add_access_arguments(parser)
    add_run_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Answer the question, or show the plans that wait; return the exit code."""
    job = check_job_name(args.job)
    client, dag_id = client_of(args), f"review__{job}"
    what = f"answer for job {job}"
    required_dag(client, dag_id, what)
    with explained(client, what):
        questions = waiting_questions(client, dag_id)
    if args.show:
        return _show(questions, args)
    question = chosen(questions, job, args.plan)
    option = REJECT if args.reject else APPROVE
    _answer(client, dag_id, question, option, args.reason.strip())
    verb = "rejected" if args.reject else "approved"
    done = f"{verb} plan {question.plan_id}" if question.plan_id else verb
    more = {"plan_id": question.plan_id, "answer": option}
    return report_run(client, dag_id, question.run_id, done, args, **more)


def waiting_questions(client: AirflowClient, dag_id: str) -> list[ReviewQuestion]:
    """Return the questions of the DAG that have no answer yet, the oldest first."""
    found = [
        detail
        for detail in client.waiting_reviews(dag_id)
        if detail["task_instance"]["task_id"] == TASK_ID
        and detail["task_instance"].get("state") in WAITING
    ]
    questions = [_question(client, dag_id, detail) for detail in found]
    return sorted(questions, key=lambda question: question.asked_at)


def chosen(questions: Sequence[ReviewQuestion], job: str, plan: str | None) -> ReviewQuestion:
    """Return the question of the named plan, or the only question where no plan is named.

    Raises:
        NothingWaiting: there is no question, or none of the named plan.
        InvalidInput: no plan is named, and several wait.
    """
    if not questions:
        raise NothingWaiting(
            f"no plan of job {job} waits for an answer; to see what is in force: "
            f"`ballast status {job}`; to make a new plan: `ballast trigger {job}`"
        )
    meant = [question for question in questions if plan in (None, question.plan_id)]
    ids = ", ".join(question.plan_id or question.run_id for question in questions)
    if not meant:
        raise NothingWaiting(
            f"plan {plan} of job {job} does not wait for an answer; waiting: {ids}; it may have "
            f"been answered or superseded: see `ballast plans log {job}`"
        )
    if len(meant) > 1:
        raise InvalidInput(f"{len(meant)} plans of job {job} wait", remedy=f"name one of {ids}")
    return meant[0]


def _question(client: AirflowClient, dag_id: str, detail: Json) -> ReviewQuestion:
    run_id = detail["task_instance"]["dag_run_id"]
    conf = client.run(dag_id, run_id).get("conf") or {}
    return ReviewQuestion(
        run_id=run_id,
        plan_id=conf.get("plan_id"),
        subject=detail["subject"],
        body=detail.get("body") or "",
        asked_at=detail["created_at"],
        takes=tuple(detail.get("params") or {}),
    )


def unsettled_s(asked_at: str, now: datetime) -> float:
    """Return the seconds to wait before answering a question.

    Clocks may differ, so the wait is never longer than ``SETTLED_AFTER_S``.
    """
    age = (now - datetime.fromisoformat(asked_at)).total_seconds()
    return min(max(SETTLED_AFTER_S - age, 0.0), SETTLED_AFTER_S)


def _answer(
    client: AirflowClient, dag_id: str, question: ReviewQuestion, option: str, reason: str
) -> None:
    if reason and "reason" not in question.takes:
        raise InvalidInput("this question takes no reason", remedy="leave --reason out")
    params = {"reason": reason} if reason else {}
    time.sleep(unsettled_s(question.asked_at, datetime.now(UTC)))
    with explained(client, f"answer run {question.run_id} of {dag_id}"):
        try:
            client.answer_review(dag_id, question.run_id, TASK_ID, option, params)
        except ApiError as error:
            if error.status != 409:
                raise
            raise NothingWaiting(
                f"run {question.run_id} of {dag_id} has been answered: {error.detail}; to see by "
                "whom: its page in Airflow, or `ballast plans log`"
            ) from error


def _show(questions: Sequence[ReviewQuestion], args: argparse.Namespace) -> int:
    if args.json:
        rows = [vars(question) | {"takes": list(question.takes)} for question in questions]
        print_json(rows)
    elif not questions:
        print_parts(f"no plan of job {args.job} waits for an answer")
    else:
        table = [[q.plan_id, q.asked_at, q.run_id, q.subject] for q in questions]
        bodies = [questions[0].body] if len(questions) == 1 else []
        print_parts(text_table(("plan", "asked at", "run", "subject"), table), *bodies)
    return 0
