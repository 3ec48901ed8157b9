"""Makes one DAG for each policy file. An invalid policy affects its own job only."""

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

# A gate that failed because a window is missing may pass later; more retries would hide a problem.
RETRIES = 1
RETRY_DELAY = timedelta(seconds=30)

MakeDag = Callable[[JobPolicy, Settings], DAG]


def dags_of_jobs(kind: str, make: MakeDag) -> Iterator[tuple[str, DAG]]:
    """Make a DAG ``<kind>__<job>`` for each policy file.

    An invalid policy gets a DAG ``reoptimize__<job>`` that shows the error and fails.

    Args:
        kind: The kind of the DAG file, for instance ``reoptimize``.
        make: Makes the DAG of one job from its policy and the settings.

    Returns:
        Pairs of DAG id and DAG.

    Raises:
        BallastError: The settings are not valid, or the folder of policies cannot be read.
    """
    settings = load_settings()
    for file in policy_files(settings.policies):
        dag = _dag_of(kind, file, make, settings)
        if dag is not None:
            yield dag.dag_id, dag


def job_dag(kind: str, policy: JobPolicy, doc: str | None, **fields: Any) -> DAG:
    """Make a DAG with the settings that all DAGs of Ballast share.

    It is named after kind and job, has one active run and does not catch up on missed runs.

    Args:
        kind: The kind of the DAG, a part of its id and a tag.
        policy: The policy of the job.
        doc: The documentation of the DAG, in Markdown.
        fields: Other arguments of ``DAG``; they replace the shared ones.

    Returns:
        The DAG without tasks.
    """
    return DAG(
        dag_id=f"{kind}__{policy.job}",
        doc_md=doc,
        catchup=False,
        default_args={"retries": RETRIES, "retry_delay": RETRY_DELAY},
        tags=["ballast", kind, policy.job],
        **{"schedule": None, "max_active_runs": 1, **fields},
    )


def schedule_of(policy: JobPolicy, settings: Settings) -> Any:
    """Return the schedule of the policy: by time, by new metrics, by both or by hand only.

    Raises:
        AirflowTimetableInvalid: The cron expression is not valid.
    """
    if not settings.schedules:
        return None
    timetable = None
    if policy.schedule is not None:
        timetable = CronTriggerTimetable(policy.schedule, timezone="UTC")
        # Checked here, because a DAG registers itself on first use, even if it is invalid.
        timetable.validate()
    if not policy.schedule_on_metrics:
        return timetable
    assets = [metrics_asset(policy.job)]
    return assets if timetable is None else AssetOrTimeSchedule(timetable=timetable, assets=assets)


def deadline_of(policy: JobPolicy) -> DeadlineAlert | None:
    """Return the alert for late runs; None if the policy has none."""
    if policy.late_run_s is None:
        return None
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=policy.late_run_s),
        callback=SyncCallback(late_run, kwargs={"job": policy.job}),
    )


def review_page() -> str:
    """Return the path of the review page below the path of this Airflow."""
    return f"{urlsplit(conf.get('api', 'base_url', fallback='')).path.rstrip('/')}/ballast/"


def _dag_of(kind: str, file: Path, make: MakeDag, settings: Settings) -> DAG | None:
    try:
        policy = load_policy(file)
        schedule_of(policy, settings)
        return make(policy, settings)
    except BallastError as error:
        named: BallastError = error
    except AirflowTimetableInvalid as error:
        # Only Airflow validates the fields of a cron expression.
        named = PolicyError(str(file), "schedule", str(error), remedy="write it as cron does")
    except Exception as error:  # noqa: BLE001 - an error of one job must not remove other DAGs
        named = PolicyError(str(file), "policy", f"{type(error).__name__}: {error}")
    return broken_policy_dag(kind, file, named) if kind == "reoptimize" else None


def broken_policy_dag(kind: str, file: Path, error: BallastError) -> DAG:
    """Make a DAG for a policy that cannot be used: its task shows the error and fails."""
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
