"""An operator that submits a program of ``spark_jobs``.

The program's result becomes the task's XCom. A refusal is logged with the program's message and
without a stack trace; it is retried only if time may help.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from ballast.contracts.log_events import FROZEN, PLANNING_STOPPED
from ballast.contracts.settings import Settings
from ballast.contracts.spark import submit_conf, submit_jars
from ballast.contracts.task_result import (
    NOTICES,
    RESULT_FILE_VARIABLE,
    Refusal,
    read_task_result,
    refusal_of,
)
from orchestration.assets import announce, plans_alias
from orchestration.lineage import lineage_of
from orchestration.notices import REFUSED, PlanNotifier
from orchestration.refusals import Refused, RefusedForNow, hide_traces_of_refusals

PROGRAMS = Path(__file__).resolve().parent.parent / "spark_jobs"
REFUSAL = "refusal"
# A time limit for programs that hang, longer than any solver may take.
TASK_TIMEOUT = timedelta(hours=2)
# Outcomes without a change: the task is skipped.
NOTHING_DONE = ("rejected", "timed_out", PLANNING_STOPPED, FROZEN)


class ProgramOperator(SparkSubmitOperator):
    """Submits ``spark_jobs/<program>.py`` for a job.

    Args:
        program: The name of the program.
        job: The job that the program runs for.
        settings: Settings of this installation.
        arguments: Arguments of the program; they may be templates.
        publishes: Emit an asset event for a new version.
        notifies: Send a notice if the program refuses.
        kwargs: Arguments of ``SparkSubmitOperator``.
    """

    def __init__(
        self,
        *,
        program: str,
        job: str,
        settings: Settings,
        arguments: Sequence[str],
        publishes: bool = False,
        notifies: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            application=str(PROGRAMS / f"{program}.py"),
            application_args=list(arguments),
            name=f"ballast-{program}",
            jars=submit_jars(settings),
            conf=submit_conf(settings),
            driver_memory=settings.driver_memory,
            execution_timeout=TASK_TIMEOUT,
            outlets=[plans_alias(job)] if publishes else [],
            on_success_callback=PlanNotifier(job),
            on_failure_callback=PlanNotifier(job),
            **kwargs,
        )
        self.job = job
        self.program = program
        self.settings = settings
        self.publishes = publishes
        self.notifies = notifies

    def execute(self, context: Any) -> dict[str, Any]:
        """Submit the program; its result decides the state of the task."""
        with TemporaryDirectory(prefix="ballast-") as folder:
            result_file = Path(folder) / "result.json"
            self.env_vars = {RESULT_FILE_VARIABLE: str(result_file)}
            try:
                super().execute(context)
            except AirflowException:
                refusal = refusal_of(read_task_result(result_file))
                if refusal is None:
                    raise
            else:
                return self._finished(context, read_task_result(result_file))
        raise self._refused(context, refusal)

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """Return the tables of the program; called by the OpenLineage provider."""
        return lineage_of(self.program, self.settings)

    def _finished(self, context: Any, result: dict[str, Any]) -> dict[str, Any]:
        if NOTICES in result:
            context["ti"].xcom_push(key=NOTICES, value=result.pop(NOTICES))
        outcome = result.get("outcome")
        if self.publishes and outcome == "published":
            announce(context, self.job, result)
        if outcome in NOTHING_DONE:
            raise AirflowSkipException(result.get("text", outcome))
        return result

    def _refused(self, context: Any, refusal: Refusal) -> AirflowException:
        text = f"{refusal.error}: {refusal.message}"
        context["ti"].xcom_push(key=REFUSAL, value=text)
        if self.notifies:
            context["ti"].xcom_push(key=NOTICES, value=[{"kind": REFUSED, "text": text}])
        hide_traces_of_refusals()
        return RefusedForNow(text) if refusal.is_retryable else Refused(text)
