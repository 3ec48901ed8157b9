"""Command-line arguments that pipeline programs share, with their checks."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ballast.contracts.errors import InvalidInput
from ballast.contracts.settings import Settings, check_job_name

LONGEST_RUN_ID = 250
LONGEST_TEXT = 2000


def add_run_arguments(parser: ArgumentParser) -> None:
    """Add ``--job`` and ``--run-id``, both required."""
    parser.add_argument("--job", required=True, type=job_name, help="name of the streaming job")
    parser.add_argument(
        "--run-id", required=True, type=run_id,
        help="id of the run; a run does its work once, however often it is started",
    )  # fmt: skip


def add_settings_arguments(parser: ArgumentParser) -> None:
    """Add ``--warehouse`` and ``--policies``, which override the environment's settings."""
    parser.add_argument("--warehouse", type=_text, help="root of the tables (BALLAST_WAREHOUSE)")
    parser.add_argument(
        "--policies", type=Path, help="folder of the job policies (BALLAST_POLICIES)"
    )


def add_as_of_argument(parser: ArgumentParser) -> None:
    """Add ``--as-of``, the time that a program uses as the present."""
    parser.add_argument(
        "--as-of", type=parse_time, default=None,
        help="ISO time to use as the present, for example 2026-11-16T12:00:00Z (default: now)",
    )  # fmt: skip


def override(settings: Settings, arguments: Namespace) -> Settings:
    """The settings with those that the command line overrides."""
    if getattr(arguments, "warehouse", None):
        warehouse = arguments.warehouse
        absolute = warehouse if "://" in warehouse else str(Path(warehouse).absolute())
        settings = replace(settings, warehouse=absolute)
    if getattr(arguments, "policies", None):
        settings = replace(settings, policies=arguments.policies.absolute())
    return settings


def job_name(text: str) -> str:
    """A job's name; the whole text must match, a trailing newline included."""
    try:
        return check_job_name(text)
    except InvalidInput as error:
        raise ArgumentTypeError(str(error)) from error


def run_id(text: str) -> str:
    """A run's id: one line of printable text."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_RUN_ID:
        raise ArgumentTypeError(
            f"run id {text[:60]!r} cannot be used; allowed: 1 to {LONGEST_RUN_ID} printable "
            "characters; to fix it: pass the id of the Airflow run"
        )
    return text


def parse_time(text: str) -> datetime:
    """An ISO time; one without a zone is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(
            f"{text!r} is not an ISO time; allowed: for example 2026-11-16T12:00:00Z"
        ) from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def one_line(text: str) -> str:
    """A person's text in one line: line breaks and unprintable characters become spaces.

    Some emoji contain an unprintable character; an approval with one must not be lost.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(printable.split())
    if len(line) > LONGEST_TEXT:
        raise ArgumentTypeError(
            f"text {line[:60]!r} cannot be used; allowed: at most {LONGEST_TEXT} characters"
        )
    return line


def _text(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("is empty; leave it out for the default")
    return text
