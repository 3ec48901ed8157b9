"""
Keeps one streaming job level: looks at its metrics, and publishes a better placement if there is one.

| task | what it does | if it fails |
|---|---|---|
| `measure` | compares what the plan in force promised with what the job's windows show, and writes `plans.outcomes` | nothing is changed |
| `condense` | validates the windows of the statistics period with Great Expectations, sets bad rows aside in `metrics.rejected`, checks that no node or key group is missing, writes a snapshot | its log says which node, key group or window is missing and when enough will be there; the plan in force stays |
| `solve` | solves the snapshot within the budgets, verifies the result with independent code, writes a draft | the plan in force stays |
| `publish` | puts the draft in force by one compare-and-set on the job's head; says "no change" where the load is already good | the plan in force stays, or the other run's plan if that one came first |

The streaming job takes a published plan up at the start of its next micro-batch and acknowledges
in `plans.acks`. **Nothing is ever half in force.** Every task may be cleared and run again: a run
never makes a second snapshot, draft or version.

To look closer: `ballast status JOB`, `ballast plans show JOB`, `docs/runbook.md`. To try without
consequences, trigger with `dry_run` set: the draft is written and nothing is published.
"""  # noqa: E501

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, CronTriggerTimetable, Param, chain, task
from airflow.sdk.exceptions import AirflowFailException, AirflowTimetableInvalid

from ballast.contracts.errors import BallastError, PolicyError
from ballast.contracts.policy import JobPolicy, load_policy, policy_files
from ballast.contracts.settings import check_job_name, load_settings
from ballast.contracts.spark import submit_conf, submit_jars

PROJECT = Path(__file__).resolve().parent.parent
PREFIX = "reoptimize"
# A gate that failed for want of a window may pass a little later; more tries only hide trouble.
RETRIES = 1
RETRY_DELAY = timedelta(seconds=30)
# Longer than any solver may take; it ends what hangs.
TASK_TIMEOUT = timedelta(hours=2)

SETTINGS = load_settings()


def reoptimize_dag(policy: JobPolicy) -> DAG:
    """The DAG of one job: measure, condense, solve, publish, each a spark-submit."""
    with DAG(
        dag_id=f"{PREFIX}__{policy.job}",
        description=policy.description or f"Keeps {policy.job} level",
        doc_md=__doc__,
        schedule=_timetable(policy),
        catchup=False,
        # Two runs of one job would solve the same problem twice; publish is safe even so.
        max_active_runs=1,
        params=_params(policy),
        default_args={"retries": RETRIES, "retry_delay": RETRY_DELAY},
        tags=["ballast", PREFIX, policy.job],
    ) as dag:
        run = ["--job", policy.job, "--run-id", "{{ run_id }}"]
        chain(
            _submit("measure", run),
            _submit("condense", run),
            _submit("solve", [*run, *_solver_arguments()]),
            _submit("publish", [*run, "--dry-run", "{{ params.dry_run | lower }}"]),
        )
    return dag


def broken_policy_dag(file: Path, error: BallastError) -> DAG:
    """A DAG in the place of one whose policy cannot be read: it says what is wrong, and fails."""
    with DAG(
        dag_id=_broken_dag_id(file),
        description="This job's policy cannot be used; see the DAG's documentation",
        doc_md=f"**The policy of this job cannot be used.**\n\n```\n{error}\n```\n",
        schedule=None,
        catchup=False,
        tags=["ballast", "broken policy"],
    ) as dag:

        @task(retries=0)
        def policy_check(message: str) -> None:
            raise AirflowFailException(message)

        policy_check(str(error))
    return dag


def _timetable(policy: JobPolicy) -> CronTriggerTimetable | None:
    if policy.schedule is None or not SETTINGS.schedules:
        return None
    timetable = CronTriggerTimetable(policy.schedule, timezone="UTC")
    # Here and not later: a DAG registers itself, right or wrong, as soon as it is used.
    timetable.validate()
    return timetable


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
            description="Predicted pause that may be spent, in seconds; empty: no limit",
        ),
        "solver_seconds": Param(
            policy.solver.seconds, type="number", exclusiveMinimum=0, maximum=3600,
            description="Time the solver may take, in seconds",
        ),
        "dry_run": Param(
            False, type="boolean",
            description="Write the draft, publish nothing",
        ),
    }  # fmt: skip


def _solver_arguments() -> list[str]:
    return [
        "--budget-moves", _or_none("budget_moves"),
        "--budget-bytes", _or_none("budget_bytes"),
        "--budget-pause-s", _or_none("budget_pause_s"),
        "--solver-seconds", "{{ params.solver_seconds }}",
    ]  # fmt: skip


def _or_none(param: str) -> str:
    return f"{{{{ 'none' if params.{param} is none else params.{param} }}}}"


def _submit(name: str, arguments: list[str]) -> SparkSubmitOperator:
    return SparkSubmitOperator(
        task_id=name,
        application=str(PROJECT / "spark_jobs" / f"{name}.py"),
        application_args=arguments,
        name=f"ballast-{name}",
        jars=submit_jars(SETTINGS),
        conf=submit_conf(SETTINGS),
        driver_memory=SETTINGS.driver_memory,
        execution_timeout=TASK_TIMEOUT,
    )


def _broken_dag_id(file: Path) -> str:
    try:
        return f"{PREFIX}__{check_job_name(file.stem)}"
    except BallastError:
        safe = "".join(c if c.isalnum() and c.isascii() else "_" for c in file.stem)
        return f"broken_policy__{safe[:60]}"


def _dag_of(file: Path) -> DAG:
    try:
        return reoptimize_dag(load_policy(file))
    except BallastError as error:
        return broken_policy_dag(file, error)
    except AirflowTimetableInvalid as error:
        # Only Airflow can tell whether the fields of a cron expression make sense.
        named = PolicyError(str(file), "schedule", str(error), remedy="write it as cron does")
        return broken_policy_dag(file, named)
    except Exception as error:  # noqa: BLE001 - one job's trouble must not take the others' DAGs
        named = PolicyError(str(file), "policy", f"{type(error).__name__}: {error}")
        return broken_policy_dag(file, named)


for _file in policy_files(SETTINGS.policies):
    _dag = _dag_of(_file)
    globals()[_dag.dag_id] = _dag
