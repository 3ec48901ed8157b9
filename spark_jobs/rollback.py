"""Put an earlier version's content in force again, as a new version:
``spark-submit spark_jobs/rollback.py --job J --run-id R --version V --reason WHY``.

The steps are in spark_jobs/restore/roll_back.py.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from spark_jobs.program.run import run_program
from spark_jobs.restore.request import RollbackRequest, add_arguments
from spark_jobs.restore.roll_back import roll_back


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``rollback`` with parsed arguments."""
    roll_back(settings, arguments.job, arguments.run_id, RollbackRequest.of(arguments))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("rollback", "Put an earlier version in force.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
