"""What a pipeline program hands to the task that started it: one small JSON file.

The task names the file in the environment; a program that is started by hand has none and hands
nothing on. A refusal goes the same way, so that the task can repeat the program's own words.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ballast.contracts.errors import BallastError, GateFailed

RESULT_FILE_VARIABLE = "BALLAST_HANDOFF"
REFUSAL = "refusal"
# What waiting alone may cure: a window that was missing may have come.
RETRYABLE_ERRORS = (GateFailed,)


@dataclass(frozen=True)
class Refusal:
    """An expected failure in the program's own words."""

    error: str
    message: str
    is_retryable: bool


def write_task_result(**values: Any) -> None:
    """Add values to what the task is handed; nothing happens where no task listens."""
    name = os.environ.get(RESULT_FILE_VARIABLE)
    if not name:
        return
    path = Path(name)
    whole = {**read_task_result(path), **values}
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(json.dumps(whole), encoding="utf-8")
    draft.replace(path)


def write_task_refusal(error: BallastError, message: str) -> None:
    """Hand on why the program refused."""
    refusal = Refusal(type(error).__name__, message, isinstance(error, RETRYABLE_ERRORS))
    write_task_result(**{REFUSAL: asdict(refusal)})


def read_task_result(path: Path) -> dict[str, Any]:
    """What has been handed on so far; nothing where the program did not come to it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def refusal_of(handed: Mapping[str, Any]) -> Refusal | None:
    """The refusal among what was handed on, if the program refused."""
    found = handed.get(REFUSAL)
    return Refusal(**found) if found else None
