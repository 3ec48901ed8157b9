"""Drafts that wait for a person, and the results of their reviews on a running Airflow."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ballast.airflow.rest import AirflowClient, wait_until
from ballast.cli.approve import WAITING, unsettled_s
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Draft, Head
from ballast.contracts.settings import Settings
from ballast.store.plans import read_assignment, read_log
from ballast.store.tables import append
from spark_jobs.publication.publisher import publish_plan
from tests.support.limits import limit_s
from tests.support.policies import small_policy, write_policy
from tests.support.snapshots import uneven, write_draft

Row = dict[str, Any]
RUN = "manual__draft"


def person_policy(job: str, timeout_s: float = 3600) -> JobPolicy:
    """A policy by which a person has to approve every plan."""
    return small_policy(job, nodes=3, review={"mode": "person", "timeout_s": timeout_s})


def write_policies(folder: Path, policies: list[JobPolicy]) -> None:
    for policy in policies:
        write_policy(folder, policy)


def drafted(settings: Settings, policy: JobPolicy, head: Head) -> Draft:
    """A draft of a run of reoptimize, made against the version in force."""
    placed = uneven(policy, extra=1)
    return write_draft(settings, policy, RUN, placement=placed, head=head, at=datetime.now(UTC))


def ask(client: AirflowClient, draft: Draft) -> str:
    """Start the review of a draft, as task ``ask`` does."""
    dag_id = f"review__{draft.job}"
    client.wait_for_dag(dag_id, limit_s(60))
    conf = {
        "plan_id": draft.plan_id,
        "content_hash": draft.content_hash,
        "draft_run_id": RUN,
    }
    return client.trigger(dag_id, conf=conf, run_id=f"review__{draft.plan_id}")


def waiting_question(client: AirflowClient, dag_id: str, run_id: str) -> Row | None:
    """The question of a review's run, once it can be answered."""
    return next(
        (
            detail
            for detail in client.waiting_reviews(dag_id)
            if detail["task_instance"]["dag_run_id"] == run_id
            and detail["task_instance"].get("state") in WAITING
            and not unsettled_s(detail["created_at"], datetime.now(UTC))
        ),
        None,
    )


def wait_for_question(client: AirflowClient, job: str, run_id: str) -> Row:
    """The question of a job's review, once it can be answered."""
    dag_id = f"review__{job}"
    return wait_until(
        lambda: waiting_question(client, dag_id, run_id), f"{dag_id} did not ask", limit_s(180)
    )


def answer(client: AirflowClient, job: str, run_id: str, option: str) -> Row:
    """Wait until the review asks, and answer it; returns the question."""
    question = wait_for_question(client, job, run_id)
    client.answer_review(f"review__{job}", run_id, "approve", option, {"reason": "as agreed"})
    return question


def change_by_hand(settings: Settings, draft: Draft) -> None:
    """Add a row to the content of a draft, without the checks that protect it."""
    rows = read_assignment(settings, draft.job, draft.plan_id)
    extra = replace(rows[0], key_group=rows[0].key_group + 99)
    append(settings, "plans.assignments", [extra.to_row()])


def overtake(settings: Settings, head: Head) -> Head:
    """Put another run's plan in force, under a policy without review."""
    policy = small_policy(head.job, nodes=3)
    write_draft(settings, policy, "manual__other", placement=uneven(policy, extra=2), head=head,
                at=datetime.now(UTC), seconds=0.2)  # fmt: skip
    newer = publish_plan(settings, head.job, "manual__other")
    assert newer is not None
    assert newer.version == head.version + 1
    return newer


def said(settings: Settings, job: str, event: str) -> list[tuple[str, str]]:
    """The actor and the reason of an event of the log."""
    log = read_log(settings, job)
    return [(row.actor, row.reason) for row in log if row.event == event]
