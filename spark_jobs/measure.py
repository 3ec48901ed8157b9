"""Measure: compare the figures that the plan in force promised with the figures since.

    spark-submit spark_jobs/measure.py --job J --run-id R [--as-of TIME] [--resume REASON --by WHO]

Loads and traffic come from the windows wholly after the plan was applied. Moves, bytes and pause
come from the streaming job's acknowledgement. Without a plan, without an acknowledgement or with
too few windows the program says so and exits 0; the next run measures. A job whose promises are
broken several times in a row stops planning by itself; ``--resume`` lets it go on (ADR 60).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from spark_jobs.outcome.plan_measurement import measure_plan
from spark_jobs.outcome.planning_events import ResumeRequest, add_resume_arguments
from spark_jobs.program.arguments import add_as_of_argument, add_run_arguments
from spark_jobs.program.run import run_program, spark_session


def _add_arguments(parser: ArgumentParser) -> None:
    add_run_arguments(parser)
    add_as_of_argument(parser)
    add_resume_arguments(parser)


def _body(arguments: Namespace, settings: Settings) -> None:
    measure_plan(
        settings, arguments.job, arguments.run_id,
        lambda: spark_session(settings, f"ballast measure {arguments.job}"),
        arguments.as_of or datetime.now(UTC),
        ResumeRequest.of(arguments),
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    return run_program("measure", "Compare a plan's promise with what was measured.",
                       _add_arguments, _body, argv)  # fmt: skip


if __name__ == "__main__":
    exit_now(main())
