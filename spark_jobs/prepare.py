"""Prepare the review of a draft: ``spark-submit spark_jobs/prepare.py --job J --run-id R ...``.

The subject and the body are given to the task; its XCom is the text of the approval. A draft that
is not the one asked for, or that is already stale, is refused before a person is asked.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from spark_jobs.program.arguments import add_run_arguments
from spark_jobs.program.run import progress, run_program
from spark_jobs.publication.review_answer import add_content_arguments, text_matching
from spark_jobs.publication.review_request import prepare_review


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``prepare``."""
    add_run_arguments(parser)
    add_content_arguments(parser)
    parser.add_argument(
        "--page", type=text_matching("path", r"/[A-Za-z0-9/_.-]{0,200}"), default="/ballast/",
        help="path of the review page",
    )  # fmt: skip


def body(arguments: Namespace, settings: Settings) -> None:
    """Check the draft and give the task the text of its review."""
    request = prepare_review(
        settings, arguments.job, arguments.run_id, arguments.plan_id, arguments.content_hash,
        arguments.page,
    )  # fmt: skip
    progress.info("%s", request.subject)
    write_task_result(subject=request.subject, body=request.body)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("prepare", "Prepare the review of a draft.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
