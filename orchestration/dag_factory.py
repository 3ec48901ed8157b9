"""One DAG a policy file, of whatever kind a DAG file makes; a broken policy breaks only its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, task
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowFailException, AirflowTimetableInvalid

from ballast.contracts.errors import BallastError, PolicyError
from ballast.contracts.policy import JobPolicy, load_policy, policy_files
from ballast.contracts.settings import Settings, check_job_name, load_settings
from orchestration.assets import metrics_asset
from orchestration.notices import late_run

# A gate that failed for want of a window may pass a little later; more tries only hide trouble.
RETRIES = 1
RETRY_DELAY = timedelta(seconds=30)

MakeDag = Callable[[JobPolicy, Settings], DAG]


def dags_of_jobs(kind: str, make: MakeDag) -> Iterator[tuple[str, DAG]]:
    """A DAG ``<kind>__<job>`` for each policy file, by its id.

    A policy that cannot be used has a DAG that says so in place of its ``reoptimize`` one.
    """
    settings = load_settings()
    for file in policy_files(settings.policies):
        dag = _dag_of(kind, file, make, settings)
        if dag is not None:
            yield dag.dag_id, dag


def job_dag(kind: str, policy: JobPolicy, doc: str | None, **fields: Any) -> DAG:
    """A DAG as all of ours are: named after kind and job, one run at a time, nothing caught up."""
    return DAG(
        dag_id=f"{kind}__{policy.job}",
        doc_md=doc,
        catchup=False,
        default_args={"retries": RETRIES, "retry_delay": RETRY_DELAY},
        tags=["ballast", kind, policy.job],
        **{"schedule": None, "max_active_runs": 1, **fields},
    )


def schedule_of(policy: JobPolicy, settings: Settings) -> Any:
    """By time, by fresh metrics, by both or by people alone, as the policy says."""
    if not settings.schedules:
        return None
    timetable = None
    if policy.schedule is not None:
        timetable = CronTriggerTimetable(policy.schedule, timezone="UTC")
        # Here and not later: a DAG registers itself, right or wrong, as soon as it is used.
        timetable.validate()
    if not policy.schedule_on_metrics:
        return timetable
    assets = [metrics_asset(policy.job)]
    return assets if timetable is None else AssetOrTimeSchedule(timetable=timetable, assets=assets)


def deadline_of(policy: JobPolicy) -> DeadlineAlert | None:
    """The alert that a run is late, where the policy wants one."""
    if policy.late_run_s is None:
        return None
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=policy.late_run_s),
        callback=SyncCallback(late_run, kwargs={"job": policy.job}),
    )


def review_page() -> str:
    """Path of the review page, below wherever this Airflow is served."""
    return f"{urlsplit(conf.get('api', 'base_url', fallback='')).path.rstrip('/')}/ballast/"


def _dag_of(kind: str, file: Path, make: MakeDag, settings: Settings) -> DAG | None:
    try:
        policy = load_policy(file)
        schedule_of(policy, settings)
        return make(policy, settings)
    except BallastError as error:
        named: BallastError = error
    except AirflowTimetableInvalid as error:
        # Only Airflow can tell whether the fields of a cron expression make sense.
        named = PolicyError(str(file), "schedule", str(error), remedy="write it as cron does")
    except Exception as error:  # noqa: BLE001 - one job's trouble must not take the others' DAGs
        named = PolicyError(str(file), "policy", f"{type(error).__name__}: {error}")
    return broken_policy_dag(kind, file, named) if kind == "reoptimize" else None


def broken_policy_dag(kind: str, file: Path, error: BallastError) -> DAG:
    """A DAG in the place of one whose policy cannot be read: it says what is wrong, and fails."""
    with DAG(
        dag_id=_broken_dag_id(kind, file),
        description="This job's policy cannot be used; see the DAG's documentation",
        doc_md=f"**The policy of this job cannot be used.**\n\n```\n{error}\n```\n",
        schedule=None,
        catchup=False,
        tags=["ballast", "broken policy"],
    ) as dag:

        @task(retries=0)  # type: ignore[untyped-decorator]
        def policy_check(message: str) -> None:
            raise AirflowFailException(message)

        policy_check(str(error))
    return dag


def _broken_dag_id(kind: str, file: Path) -> str:
    try:
        return f"{kind}__{check_job_name(file.stem)}"
    except BallastError:
        safe = "".join(c if c.isalnum() and c.isascii() else "_" for c in file.stem)
        return f"broken_policy__{safe[:60]}"
