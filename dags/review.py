"""
Asks a person to approve or reject one draft. `reoptimize__JOB` starts a run for each draft for which the policy's `review` requires a person.

| task | what it does | if it fails |
|---|---|---|
| `prepare` | writes the text of the review: the change and its reason, load per node before and after, moves, promised figures, bound, cost, moves held back | the draft is stale, or has other content than requested; nothing is published |
| `approve` | waits for **Approve** or **Reject** ("Required Actions"), with an optional reason; no answer in time counts as a rejection | nothing is published |
| `publish` | writes the answer with your name to `plans.log`; after an approval publishes **exactly the content that was shown** (by its hash); skipped after a rejection | the plan in force stays |

A draft that became stale while it waited (a newer version, a lost node, changed load) is refused
with the reason, and the next run of `reoptimize__JOB` makes a new one. A newer draft replaces an
older one: an answer to the older one publishes nothing.

To review a draft of a run with `dry_run`: trigger this DAG with its plan id, content hash and
run (`ballast plans show JOB PLAN`).
"""  # noqa: E501

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, chain

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from orchestration.dag_factory import dags_of_jobs, job_dag, review_page
from orchestration.program_operator import ProgramOperator
from orchestration.review import REVIEW, PlanApproval

PREPARED = "{{{{ ti.xcom_pull(task_ids='prepare')['{}'] }}}}"
ANSWERED = "{{{{ ti.xcom_pull(task_ids='approve')['{}'] }}}}"
LONGEST_REASON = 2000


def review_dag(policy: JobPolicy, settings: Settings) -> DAG:
    """Make the DAG of one job: prepare, approve, publish."""
    common = {"job": policy.job, "settings": settings}
    draft = [
        f"--job={policy.job}",
        "--run-id={{ params.draft_run_id }}",
        "--plan-id={{ params.plan_id }}",
        "--content-hash={{ params.content_hash }}",
    ]
    with job_dag(
        REVIEW,
        policy,
        __doc__,
        description=f"Asks a person to approve or reject a plan of {policy.job}",
        # An older draft may wait while a newer one does; each answer is checked.
        max_active_runs=100,
        is_paused_upon_creation=False,
        params=_params(),
    ) as dag:
        chain(
            ProgramOperator(
                task_id="prepare",
                program="prepare",
                arguments=[*draft, f"--page={review_page()}"],
                **common,
            ),
            PlanApproval(
                task_id="approve",
                subject=PREPARED.format("subject"),
                body=PREPARED.format("body"),
                defaults=PlanApproval.REJECT,
                response_timeout=timedelta(seconds=policy.review.timeout_s),
                params={"reason": Param("", type="string", maxLength=LONGEST_REASON)},
            ),
            ProgramOperator(
                task_id="publish",
                program="publish",
                arguments=[*draft, "--review-run-id={{ run_id }}", *_answer()],
                publishes=True,
                **common,
            ),
        )
    return dag


def _params() -> dict[str, Param]:
    return {
        "plan_id": Param(
            "0" * 16, type="string", pattern="^[0-9a-f]{16}$", description="Plan to review"
        ),
        "content_hash": Param(
            "0" * 64, type="string", pattern="^[0-9a-f]{64}$", description="Hash of its content"
        ),
        "draft_run_id": Param(
            "none",
            type="string",
            maxLength=250,
            description="Run of reoptimize that made the draft",
        ),
    }


def _answer() -> list[str]:
    return [
        f"--answer={ANSWERED.format('answer')}",
        f"--answered-by={ANSWERED.format('by')}",
        f"--answered-at={ANSWERED.format('at')}",
        f"--reason={ANSWERED.format('reason')}",
    ]


for _dag_id, _dag in dags_of_jobs(REVIEW, review_dag):
    globals()[_dag_id] = _dag
