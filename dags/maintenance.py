"""
Cleans and checks the tables of all streaming jobs.

| DAG | task | what it does | if it fails |
|---|---|---|---|
| `maintenance`, every night | `check_invariants` | as below; if an invariant is broken, nothing is removed | see below |
| | `maintain` | removes rows that are older than their table's retention, merges small files (OPTIMIZE), deletes files that no version needs (VACUUM) | its log names the table; the other tables were maintained. Clear the task |
| `check_invariants`, every hour | `check_invariants` | checks that each head names a complete plan, that versions have no gaps, and that log and heads agree; adds missing rows of the log | its log says for each job which invariant is broken and what to do |

Rows are kept as long as a plan refers to them that is in force, may be rolled back to, or may still
be solved or reviewed. Files are kept as long as a running job or run may read them. Every task may
be cleared and run again at any time. See `docs/runbook.md`.
"""  # noqa: E501

from __future__ import annotations

import shlex
import sys
from datetime import timedelta
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, CronTriggerTimetable

from ballast.contracts.settings import load_settings
from ballast.contracts.spark import submit_conf, submit_jars

PROGRAMS = Path(__file__).resolve().parent.parent / "spark_jobs"
NIGHTLY, HOURLY = "20 3 * * *", "50 * * * *"
# Time limit for a run that hangs; the first run after a long time may take hours.
MAINTAIN_TIMEOUT = timedelta(hours=6)
CHECK_TIMEOUT = timedelta(minutes=30)

SETTINGS = load_settings()


def check_invariants() -> BashOperator:
    """Make the task without Spark: it reads only a few small tables."""
    program = [sys.executable, str(PROGRAMS / "check_invariants.py")]
    return BashOperator(
        task_id="check_invariants",
        bash_command=shlex.join(program),
        append_env=True,
        execution_timeout=CHECK_TIMEOUT,
    )


def maintain() -> SparkSubmitOperator:
    """Make the task with Spark for the table that Spark writes; delta-rs does the rest (ADR 45)."""
    return SparkSubmitOperator(
        task_id="maintain",
        application=str(PROGRAMS / "maintain.py"),
        name="ballast-maintain",
        jars=submit_jars(SETTINGS),
        conf=submit_conf(SETTINGS),
        driver_memory=SETTINGS.driver_memory,
        execution_timeout=MAINTAIN_TIMEOUT,
    )


def _dag(dag_id: str, description: str, schedule: str) -> DAG:
    return DAG(
        dag_id=dag_id,
        description=description,
        doc_md=__doc__,
        schedule=CronTriggerTimetable(schedule, timezone="UTC") if SETTINGS.schedules else None,
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
        tags=["ballast", "maintenance"],
    )


with _dag("maintenance", "Cleans the tables", NIGHTLY) as maintenance:
    check_invariants() >> maintain()

with _dag("check_invariants", "Checks that heads, plans and log agree", HOURLY) as checks:
    check_invariants()
