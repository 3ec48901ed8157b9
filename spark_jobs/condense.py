"""Condense: validate the metrics of a job's last statistics period and make a snapshot of them.

    spark-submit spark_jobs/condense.py --job flights --run-id RUN [--as-of TIME] [--policies DIR]

Exit 0: the run has a snapshot, taken now or by an earlier attempt. Exit 4: the metrics are missing
or broken; one line says what is missing and when enough will be there.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from ballast.contracts.policy import load_policy
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from spark_jobs.program.arguments import add_as_of_argument, add_run_arguments
from spark_jobs.program.run import run_program, spark_session
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.take_snapshot import condense


def _add_arguments(parser: ArgumentParser) -> None:
    add_run_arguments(parser)
    add_as_of_argument(parser)


def _body(arguments: Namespace, settings: Settings) -> None:
    policy = load_policy(settings.policies / f"{arguments.job}.yaml")
    request = SnapshotRequest(policy, arguments.run_id, arguments.as_of or datetime.now(UTC))
    condense(
        settings, request, lambda: spark_session(settings, f"ballast condense {arguments.job}")
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    return run_program("condense", "Make a snapshot of a job's metrics.", _add_arguments, _body,
                       argv)  # fmt: skip


if __name__ == "__main__":
    exit_now(main())
