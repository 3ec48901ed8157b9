"""The frame around every pipeline program: arguments, settings, progress lines, exit codes.

A program's body builds its Spark session itself, with :func:`spark_session` and only when it
needs one, so that a run that has nothing to do costs no JVM session.
"""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from ballast.contracts.errors import BallastError, InvalidInput
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.task_result import write_task_refusal
from spark_jobs.program.arguments import add_settings_arguments, override

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Body = Callable[[Namespace, Settings], None]

progress = logging.getLogger("ballast.progress")
"""Plain lines on what a program does; ``progress.info("...")`` prints them with the seconds."""


def run_program(
    name: str,
    description: str,
    add_arguments: Callable[[ArgumentParser], None],
    body: Body,
    argv: Sequence[str] | None = None,
) -> int:
    """Parse, load the settings, run the body; return the exit code.

    An error raised on purpose becomes one line on stderr, a refusal that the task is handed, and
    its exit code. Any other exception is a bug and keeps its traceback.
    """
    parser = _Parser(prog=name, description=description)
    add_arguments(parser)
    add_settings_arguments(parser)
    arguments = parser.parse_args(argv)
    _print_progress(name)
    try:
        body(arguments, override(load_settings(), arguments))
    except BallastError as error:
        message = " ".join(str(error).split())
        print(f"{name}: {type(error).__name__}: {message}", file=sys.stderr, flush=True)
        write_task_refusal(error, message)
        return error.exit_code
    return 0


class _Parser(ArgumentParser):
    """A parser whose refusal the task is handed as well: to try again would not help."""

    def error(self, message: str) -> NoReturn:
        write_task_refusal(InvalidInput(message), message)
        super().error(message)


@contextmanager
def spark_session(settings: Settings, app_name: str) -> Iterator[SparkSession]:
    """A session that is stopped whatever happens inside."""
    from spark_jobs.program.session import build_session

    spark = build_session(settings, app_name)
    progress.info("Spark session up")
    try:
        yield spark
    finally:
        spark.stop()


def _print_progress(name: str) -> None:
    """Send progress lines to stdout: what is said there survives in the task's log."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Elapsed(name))
    progress.handlers[:] = [handler]
    progress.setLevel(logging.INFO)
    progress.propagate = False


class _Elapsed(logging.Formatter):
    """``condense +12.3 s: what was done``; the clock starts with the Python process."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        return f"{self._name} +{record.relativeCreated / 1000:.1f} s: {record.getMessage()}"
