"""Run a pipeline program: arguments, settings, progress lines, exit codes.

The body of a program opens its Spark session itself, with :func:`spark_session` and only if it
needs one, so that a run without work opens none.
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
from spark_jobs.program.core_wait import USUAL_LIMITS, WaitLimits, watched_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Body = Callable[[Namespace, Settings], None]

progress = logging.getLogger("ballast.progress")
"""Progress lines: ``progress.info("...")`` prints a line with the seconds since the start."""


def run_program(
    name: str,
    description: str,
    add_arguments: Callable[[ArgumentParser], None],
    body: Body,
    argv: Sequence[str] | None = None,
) -> int:
    """Parse the arguments, load the settings, run the body.

    A :class:`BallastError` becomes one line on stderr, a refusal in the task's result and its
    exit code. Any other exception is a bug and keeps its traceback.

    Args:
        name: name of the program.
        description: one line for ``--help``.
        add_arguments: adds the program's own arguments to the parser.
        body: does the work, given the parsed arguments and the settings.
        argv: the command line; that of the process by default.

    Returns:
        The exit code.
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
    """A parser that writes its error to the task's result too: a retry would not help."""

    def error(self, message: str) -> NoReturn:
        write_task_refusal(InvalidInput(message), message)
        super().error(message)


@contextmanager
def spark_session(
    settings: Settings, app_name: str, limits: WaitLimits = USUAL_LIMITS
) -> Iterator[SparkSession]:
    """A session that is stopped at the end of the block, also after an error.

    Args:
        settings: where Spark runs.
        app_name: name of the application.
        limits: how long the program waits for cores of the cluster.

    Raises:
        SettingsError: the session cannot be built with these settings.
        ClusterUnavailable: no executor came within the limit, or Spark ended the application.
    """
    from spark_jobs.program.session import build_session

    spark = build_session(settings, app_name)
    progress.info("Spark session up")
    try:
        with watched_cores(spark, progress.info, limits):
            yield spark
    finally:
        spark.stop()


def _print_progress(name: str) -> None:
    """Send progress lines to stdout, which the task's log keeps."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_ElapsedFormatter(name))
    progress.handlers[:] = [handler]
    progress.setLevel(logging.INFO)
    progress.propagate = False


class _ElapsedFormatter(logging.Formatter):
    """Formats a line as ``condense +12.3 s: text``; the clock starts with the Python process."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        return f"{self._name} +{record.relativeCreated / 1000:.1f} s: {record.getMessage()}"
