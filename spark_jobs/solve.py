"""Draft a plan from a run's snapshot: ``spark-submit spark_jobs/solve.py --job J --run-id R``.

One machine solves a snapshot, and a draft is small. Both go through delta-rs, and no Spark session
is built (ADR 9). The steps are in spark_jobs/draft/draft_plan.py. Exit 0 without a draft: the job
has stopped planning by itself, and the result of the task says why (ADR 60).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from spark_jobs.draft.draft_plan import draft_unless_stopped
from spark_jobs.draft.solve_arguments import SolveOptions, add_arguments
from spark_jobs.program.run import run_program


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``solve`` with parsed arguments."""
    draft_unless_stopped(settings, arguments.job, arguments.run_id, SolveOptions.of(arguments))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("solve", "Draft a plan from a run's snapshot.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
