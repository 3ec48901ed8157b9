"""The result that a pipeline program returns to its Airflow task: one small JSON file.

The task names the file in an environment variable. A program that a person starts has no such
variable and writes no result. A refusal is part of the result, so that the task can repeat the
program's message.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ballast.contracts.errors import BallastError, ClusterUnavailable, GateFailed

RESULT_FILE_VARIABLE = "BALLAST_TASK_RESULT"
REFUSAL = "refusal"
NOTICES = "notices"
# Errors that may pass with time: a missing window may arrive.
RETRYABLE_ERRORS = (GateFailed, ClusterUnavailable)


@dataclass(frozen=True)
class Notice:
    """What happened to a job's plans, for people; notices are counted by their kind."""

    kind: str
    text: str


@dataclass(frozen=True)
class Refusal:
    """An expected failure: the error's class, its message, and whether to try again."""

    error: str
    message: str
    is_retryable: bool


def write_task_result(**values: Any) -> None:
    """Add values to the result of the task; does nothing if no task started the program."""
    name = os.environ.get(RESULT_FILE_VARIABLE)
    if not name:
        return
    path = Path(name)
    result = {**read_task_result(path), **values}
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(json.dumps(result), encoding="utf-8")
    draft.replace(path)


def write_task_notices(*notices: Notice) -> None:
    """Set the notices that the task passes on, in place of those that were set before."""
    write_task_result(**{NOTICES: [asdict(notice) for notice in notices]})


def write_task_refusal(error: BallastError, message: str) -> None:
    """Add the reason why the program refused to the result of the task."""
    refusal = Refusal(type(error).__name__, message, isinstance(error, RETRYABLE_ERRORS))
    write_task_result(**{REFUSAL: asdict(refusal)})


def read_task_result(path: Path) -> dict[str, Any]:
    """The result so far; empty if the program wrote none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def refusal_of(result: Mapping[str, Any]) -> Refusal | None:
    """The refusal in a result; None if the program did not refuse."""
    found = result.get(REFUSAL)
    return Refusal(**found) if found else None
