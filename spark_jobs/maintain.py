"""Keep the tables small: ``spark-submit spark_jobs/maintain.py``.

Rows older than their table's retention are removed, small files are merged, and files that no
version needs are deleted. The program may be killed and run again at any time, beside publishers
and running jobs (ADR 45).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from spark_jobs.program.arguments import add_as_of_argument
from spark_jobs.program.run import run_program, spark_session
from spark_jobs.upkeep.maintenance import maintain


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``maintain``."""
    add_as_of_argument(parser)


def body(arguments: Namespace, settings: Settings) -> None:
    """Maintain every table of the warehouse."""
    now = arguments.as_of or datetime.now(UTC)
    maintain(settings, lambda: spark_session(settings, "ballast maintain"), now)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("maintain", "Keep the tables small.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
