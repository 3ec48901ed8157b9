"""
Keeps one streaming job balanced: reads its metrics, and publishes a better placement if there is one.

| task | what it does | if it fails |
|---|---|---|
| `measure` | compares the promised figures of the plan in force with the job's windows, and writes `plans.outcomes`; stops planning after several broken promises in a row, or lets it continue | nothing is changed |
| `condense` | validates the windows of the statistics period with Great Expectations, moves bad rows to `metrics.rejected`, checks that no node or key group is missing, writes a snapshot | its log says which node, key group or window is missing and when there will be enough windows; the plan in force stays |
| `solve` | solves the snapshot within the budgets, verifies the result with independent code, writes a draft; skipped while planning is stopped | the plan in force stays |
| `publish` | puts the draft in force by one compare-and-set on the job's head; says "no change" if no better plan was found; leaves it waiting if the policy's `review` requires a person | the plan in force stays, or that of another run which published first |
| `ask` | starts the run of `review__JOB` for a waiting draft; skipped if there is none | the draft waits; trigger the review by hand |

The streaming job takes up a published plan at the start of its next micro-batch and acknowledges
it in `plans.acks`. **A plan is never partly in force.** Every task may be cleared and run again: a
run never makes a second snapshot, draft or version.

**A job whose promises are broken several times in a row stops planning by itself** (the policy's
`stop_after_broken_promises`). Its runs continue to measure and succeed with `solve` skipped; only key
groups of dead nodes still move. Planning continues when a measurement of the plan in force is inside
its promised interval, or when a person triggers a run with `resume` set to a reason
(`ballast resume JOB --reason TEXT`).

A run never waits for a person. A task that refuses writes the reason to its log and to its XCom
`refusal`.

For details: `ballast status JOB`, `ballast plans show JOB`, `docs/runbook.md`. To test without a
change, trigger with `dry_run` set: the draft is written and nothing is published.
"""  # noqa: E501

from __future__ import annotations

from airflow.sdk import DAG, Param, chain

from ballast.contracts.methods import PlanningProblem, methods_of
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from orchestration.dag_factory import dags_of_jobs, deadline_of, job_dag, schedule_of
from orchestration.program_operator import ProgramOperator
from orchestration.review import AskForReview

KIND = "reoptimize"


def reoptimize_dag(policy: JobPolicy, settings: Settings) -> DAG:
    """Make the DAG of one job: measure, condense, solve, publish, ask for a review if needed."""
    common = {"job": policy.job, "settings": settings}
    run = ["--job", policy.job, "--run-id", "{{ run_id }}"]
    resume = ["--resume={{ params.resume or '' }}", "--by={{ dag_run.triggering_user_name or '' }}"]
    with job_dag(
        KIND,
        policy,
        __doc__,
        description=policy.description or f"Keeps {policy.job} balanced",
        # Two runs of one job would solve the same problem twice; publish is safe in any case.
        max_active_runs=1,
        schedule=schedule_of(policy, settings),
        deadline=deadline_of(policy),
        params=_params(policy),
    ) as dag:
        chain(
            ProgramOperator(
                task_id="measure", program="measure", arguments=[*run, *resume], **common
            ),
            ProgramOperator(task_id="condense", program="condense", arguments=run, **common),
            ProgramOperator(
                task_id="solve", program="solve", arguments=[*run, *_solver_arguments()], **common
            ),
            ProgramOperator(
                task_id="publish",
                program="publish",
                arguments=[*run, "--dry-run", "{{ params.dry_run | lower }}"],
                publishes=True,
                **common,
            ),
            AskForReview(task_id="ask", job=policy.job),
        )
    return dag


def _params(policy: JobPolicy) -> dict[str, Param]:
    budgets = policy.budgets
    return {
        "budget_moves": Param(
            budgets.moves, type=["null", "integer"], minimum=0, maximum=10_000_000,
            description="Key groups that may move; empty: no limit",
        ),
        "budget_bytes": Param(
            budgets.bytes, type=["null", "integer"], minimum=0, maximum=10**15,
            description="State that may move, in bytes; empty: no limit",
        ),
        "budget_pause_s": Param(
            budgets.pause_s, type=["null", "number"], minimum=0, maximum=10**6,
            description="Predicted pause of the moves, in seconds; empty: no limit",
        ),
        "solver_seconds": Param(
            policy.solver.seconds, type="number", exclusiveMinimum=0, maximum=3600,
            description="Time the solver may take, in seconds",
        ),
        "method": Param(
            None, enum=[None, *methods_of(PlanningProblem(policy.objective.kind))],
            description="Method of this plan; empty: the policy's, with its parameters",
        ),
        "dry_run": Param(
            False, type="boolean",
            description="Write the draft, publish nothing",
        ),
        "resume": Param(
            None, type=["null", "string"], minLength=1, maxLength=2000,
            description="Let a job that stopped planning by itself go on, and why; kept in the log",
        ),
    }  # fmt: skip


def _solver_arguments() -> list[str]:
    return [
        "--budget-moves", _or_none("budget_moves"),
        "--budget-bytes", _or_none("budget_bytes"),
        "--budget-pause-s", _or_none("budget_pause_s"),
        "--solver-seconds", "{{ params.solver_seconds }}",
        "--method={{ '' if params.method is none else params.method }}",
    ]  # fmt: skip


def _or_none(param: str) -> str:
    return f"{{{{ 'none' if params.{param} is none else params.{param} }}}}"


for _dag_id, _dag in dags_of_jobs(KIND, reoptimize_dag):
    globals()[_dag_id] = _dag
