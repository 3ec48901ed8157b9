"""Logs an expected refusal without a stack trace.

Airflow logs every exception of a task with its trace. A failed gate is not a bug, and a trace would
hide the message from the engineer on call, so it is removed from these log lines only.
"""

from __future__ import annotations

import sys
from typing import Any

import structlog
from airflow.sdk.exceptions import AirflowException, AirflowFailException


class Refused(AirflowFailException):
    """A program refused; it is not retried."""


class RefusedForNow(AirflowException):
    """A program refused; it is retried, because the reason may pass."""


EXPECTED = (Refused, RefusedForNow)


def without_trace(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """A structlog processor that removes the trace of expected refusals."""
    error = sys.exc_info()[1]
    if event.get("exc_info") and isinstance(error, EXPECTED):
        event = {key: value for key, value in event.items() if key != "exc_info"}
        event["event"] = f"Refused: {error}"
    return event


def hide_traces_of_refusals() -> None:
    """Install the processor in this process; all of its loggers share one list."""
    processors = structlog.get_config()["processors"]
    if without_trace not in processors:
        processors.insert(0, without_trace)
