"""An expected refusal reads as its own words in a task's log, without a stack trace.

Airflow logs every exception of a task with its trace. A gate that is closed is no bug, and the
trace would bury what the engineer on call is to read, so it is taken off those log lines alone.
"""

from __future__ import annotations

import sys
from typing import Any

import structlog
from airflow.sdk.exceptions import AirflowException, AirflowFailException


class Refused(AirflowFailException):
    """A program refused, and trying again would not help."""


class RefusedForNow(AirflowException):
    """A program refused, and what it lacks may come with time."""


EXPECTED = (Refused, RefusedForNow)


def without_trace(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """A structlog processor: the line of an expected refusal is what it says."""
    error = sys.exc_info()[1]
    if event.get("exc_info") and isinstance(error, EXPECTED):
        event = {key: value for key, value in event.items() if key != "exc_info"}
        event["event"] = f"Refused: {error}"
    return event


def keep_quiet() -> None:
    """Use the processor in this task's process; its loggers share one list of them."""
    processors = structlog.get_config()["processors"]
    if without_trace not in processors:
        processors.insert(0, without_trace)
