"""Publish a run's draft: ``spark-submit spark_jobs/publish.py --job J --run-id R``.

A draft that the policy wants a person to see waits instead. With ``--answer`` the program carries
out the person's answer (ADR 40).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from spark_jobs.program.arguments import add_as_of_argument, add_run_arguments
from spark_jobs.program.run import run_program
from spark_jobs.publication.publisher import publish_plan, publish_reviewed
from spark_jobs.publication.review_answer import ReviewAnswer, add_answer_arguments


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``publish``."""
    add_run_arguments(parser)
    add_as_of_argument(parser)
    add_answer_arguments(parser)
    parser.add_argument(
        "--dry-run", nargs="?", choices=("true", "false"), const="true", default="false",
        help="check and log the draft, but leave the head",
    )  # fmt: skip


def body(arguments: Namespace, settings: Settings) -> None:
    """Publish the draft, or carry out the answer to its review."""
    answer = ReviewAnswer.from_arguments(arguments)
    if answer is not None:
        publish_reviewed(settings, arguments.job, arguments.run_id, answer)
        return
    publish_plan(
        settings, arguments.job, arguments.run_id,
        dry_run=arguments.dry_run == "true", now=arguments.as_of,
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("publish", "Publish a run's draft.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
