"""One operator for every program of ``spark_jobs``: submits it and takes what it hands on.

What a program hands on is the task's XCom. A refusal keeps the program's own words, without a
trace, and is tried again only where waiting may cure it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from ballast.contracts.log_events import PLANNING_STOPPED
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
from orchestration.refusals import Refused, RefusedForNow, keep_quiet

PROGRAMS = Path(__file__).resolve().parent.parent / "spark_jobs"
REFUSAL = "refusal"
# Longer than any solver may take; it ends what hangs.
TASK_TIMEOUT = timedelta(hours=2)
# Outcomes by which nothing was to be done: the task shows as skipped.
NOTHING_DONE = ("rejected", "timed_out", PLANNING_STOPPED)


class ProgramOperator(SparkSubmitOperator):
    """Submits ``spark_jobs/<program>.py`` for a job.

    ``publishes`` makes its versions an asset. Who asked a question reads the answer: a program
    that only answers ``tells`` nobody else where it refuses.
    """

    def __init__(
        self,
        *,
        program: str,
        job: str,
        settings: Settings,
        arguments: Sequence[str],
        publishes: bool = False,
        tells: bool = True,
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
        self.tells = tells

    def execute(self, context: Any) -> dict[str, Any]:
        """Submit the program; its last words decide what the task ends with."""
        with TemporaryDirectory(prefix="ballast-") as folder:
            handoff = Path(folder) / "handoff.json"
            self.env_vars = {RESULT_FILE_VARIABLE: str(handoff)}
            try:
                super().execute(context)
            except AirflowException:
                refusal = refusal_of(read_task_result(handoff))
                if refusal is None:
                    raise
            else:
                return self._finished(context, read_task_result(handoff))
        raise self._refused(context, refusal)

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """The tables that the program reads and writes; asked for by the OpenLineage provider."""
        return lineage_of(self.program, self.settings)

    def _finished(self, context: Any, handed: dict[str, Any]) -> dict[str, Any]:
        if NOTICES in handed:
            context["ti"].xcom_push(key=NOTICES, value=handed.pop(NOTICES))
        outcome = handed.get("outcome")
        if self.publishes and outcome == "published":
            announce(context, self.job, handed)
        if outcome in NOTHING_DONE:
            raise AirflowSkipException(handed.get("text", outcome))
        return handed

    def _refused(self, context: Any, refusal: Refusal) -> AirflowException:
        text = f"{refusal.error}: {refusal.message}"
        context["ti"].xcom_push(key=REFUSAL, value=text)
        if self.tells:
            context["ti"].xcom_push(key=NOTICES, value=[{"kind": REFUSED, "text": text}])
        keep_quiet()
        return RefusedForNow(text) if refusal.is_retryable else Refused(text)
