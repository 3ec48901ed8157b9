"""
Puts the content of an earlier version in force again, as a new version.

| task | what it does | if it fails |
|---|---|---|
| `rollback` | checks the old content against the current nodes, publishes it by one compare-and-set on the job's head, writes person and reason to `plans.log` | its log says why: the version no longer fits (lost nodes, other key groups), or another run published first; the plan in force stays |

Trigger it with the version (`ballast plans list JOB`) and a reason. If nodes of the old
version are lost, `force_nodes` allows new places for its key groups on them; nothing else moves.
The streaming job takes up the version at its next micro-batch, like any other.

**A rollback changes nothing for the next run of `reoptimize__JOB`**, which plans from new
measurements. To keep a version, pause that DAG, or set `review.mode: person` in the policy.
"""  # noqa: E501

from __future__ import annotations

from airflow.sdk import DAG, Param

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from orchestration.dag_factory import dags_of_jobs, job_dag
from orchestration.program_operator import ProgramOperator

KIND = "rollback"


def rollback_dag(policy: JobPolicy, settings: Settings) -> DAG:
    """Make the DAG of one job: one task."""
    with job_dag(
        KIND,
        policy,
        __doc__,
        description=f"Puts an earlier version of {policy.job} in force again",
        is_paused_upon_creation=False,
        params=_params(),
    ) as dag:
        ProgramOperator(
            task_id=KIND,
            program=KIND,
            job=policy.job,
            settings=settings,
            arguments=[
                f"--job={policy.job}",
                "--run-id={{ run_id }}",
                "--version={{ params.version }}",
                "--reason={{ params.reason }}",
                "--force-nodes={{ params.force_nodes | lower }}",
                "--by={{ dag_run.triggering_user_name or '' }}",
            ],
            publishes=True,
        )
    return dag


def _params() -> dict[str, Param]:
    return {
        "version": Param(
            1, type="integer", minimum=1, maximum=10**15,
            description="Version whose content is put in force again",
        ),
        "reason": Param(
            "rolled back by hand", type="string", minLength=1, maxLength=2000,
            description="Reason, for the log of plans",
        ),
        "force_nodes": Param(
            False, type="boolean",
            description="Place key groups on lost nodes anew",
        ),
    }  # fmt: skip


for _dag_id, _dag in dags_of_jobs(KIND, rollback_dag):
    globals()[_dag_id] = _dag
