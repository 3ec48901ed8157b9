"""
Keeps the tables small and whole, for all streaming jobs together.

| DAG | task | what it does | if it fails |
|---|---|---|---|
| `maintenance`, every night | `check_invariants` | as below; nothing is removed while something is broken | see below |
| | `maintain` | removes rows that outlived their table's retention, makes few files of many (OPTIMIZE), deletes files that no version needs (VACUUM) | its log names the table; the others were maintained. Clear the task |
| `check_invariants`, every hour | `check_invariants` | checks that each head names a whole plan, that versions have no gaps, that log and heads agree; adds rows that the log lacks | its log says for each job what is broken and what to do |

What a plan refers to that is in force, may be rolled back to or may still be solved or reviewed is
never removed, nor what a running job or run may be reading. Every task may be cleared and run again
at any time. See `docs/runbook.md`.
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
# It ends what hangs; a first night after a long time may take hours.
MAINTAIN_TIMEOUT = timedelta(hours=6)
CHECK_TIMEOUT = timedelta(minutes=30)

SETTINGS = load_settings()


def check_invariants() -> BashOperator:
    """A plain process: it reads a few small tables, and a JVM would be most of what it costs."""
    program = [sys.executable, str(PROGRAMS / "check_invariants.py")]
    return BashOperator(
        task_id="check_invariants",
        bash_command=shlex.join(program),
        append_env=True,
        execution_timeout=CHECK_TIMEOUT,
    )


def maintain() -> SparkSubmitOperator:
    """Spark for the table that Spark writes; the rest goes through delta-rs (ADR 45)."""
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


with _dag("maintenance", "Keeps the tables small", NIGHTLY) as maintenance:
    check_invariants() >> maintain()

with _dag("check_invariants", "Checks that heads, plans and log agree", HOURLY) as checks:
    check_invariants()
