"""Measure: compare the figures that the plan in force promised with the figures since.

    spark-submit spark_jobs/measure.py --job J --run-id R [--as-of TIME]

Loads and traffic come from the windows wholly after the plan was applied. Moves, bytes and pause
come from the streaming job's acknowledgement. Without a plan, without an acknowledgement or with
too few windows the program says so and exits 0; the next run measures.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy
from ballast.contracts.process_exit import exit_now
from ballast.contracts.records import Outcome
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from spark_jobs.outcome.measure_applied_plan import MeasureRun, measure_applied_plan
from spark_jobs.outcome.outcome_tables import (
    read_applied_plan,
    read_run_outcomes,
    write_outcomes,
)
from spark_jobs.outcome.outcomes import broken_promise, report
from spark_jobs.program.arguments import add_as_of_argument, add_run_arguments
from spark_jobs.program.run import progress, run_program, spark_session
from spark_jobs.warehouse.plan_log import Event, append_event

Session = Callable[[], AbstractContextManager[SparkSession]]


def measure_plan(
    settings: Settings, job: str, run_id: str, session: Session, as_of: datetime
) -> list[Outcome]:
    """The outcomes of the version in force as this run measures it; empty if it cannot.

    Args:
        settings: where the tables are.
        job: name of the streaming job.
        run_id: the run; it measures a version once.
        session: opens a Spark session; not called if there is nothing to measure.
        as_of: the time that is now.
    """
    applied = read_applied_plan(settings, job)
    if applied is None:
        return []
    outcomes = read_run_outcomes(settings, applied, run_id)
    if outcomes:
        progress.info("the run has measured version %d", applied.ack.version)
    else:
        with session() as spark:
            run = MeasureRun(spark, settings, run_id, as_of)
            outcomes = measure_applied_plan(run, applied)
        if not outcomes:
            return []
        write_outcomes(settings, outcomes)
        outcomes = read_run_outcomes(settings, applied, run_id)
    for line in report(outcomes):
        progress.info("%s", line)
    report_broken_promise(settings, applied.policy, outcomes, run_id)
    return outcomes


def report_broken_promise(
    settings: Settings, policy: JobPolicy, outcomes: Sequence[Outcome], run_id: str
) -> None:
    """Log and notify, once for each version, that a plan does worse than it promised."""
    message = broken_promise(outcomes, policy.thresholds.broken_promise_pct)
    if message is None:
        return
    first = outcomes[0]
    # Once for each version, however many runs find it.
    event = Event(
        first.job, "promise_broken", run_id, f"measure of run {run_id}", message, first.version,
        first.plan_id, unique_by=str(first.version),
    )  # fmt: skip
    if append_event(settings, event):
        progress.info("the promise is broken: %s", message)
        notice = {"kind": "promise_broken", "text": f"job {first.job}: {message}"}
        write_task_result(notice=notice)


def _add_arguments(parser: ArgumentParser) -> None:
    add_run_arguments(parser)
    add_as_of_argument(parser)


def _body(arguments: Namespace, settings: Settings) -> None:
    measure_plan(
        settings, arguments.job, arguments.run_id,
        lambda: spark_session(settings, f"ballast measure {arguments.job}"),
        arguments.as_of or datetime.now(UTC),
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    return run_program("measure", "Compare a plan's promise with what was measured.",
                       _add_arguments, _body, argv)  # fmt: skip


if __name__ == "__main__":
    exit_now(main())
