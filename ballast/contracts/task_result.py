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

VARIABLE = "BALLAST_HANDOFF"
REFUSAL = "refusal"
# What waiting alone may cure: a window that was missing may have come.
MAY_HEAL = (GateFailed,)


@dataclass(frozen=True)
class Refusal:
    """An expected failure in the program's own words."""

    error: str
    message: str
    may_heal: bool


def hand_on(**values: Any) -> None:
    """Add values to what the task is handed; nothing happens where no task listens."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    path = Path(name)
    whole = {**read_handoff(path), **values}
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(json.dumps(whole), encoding="utf-8")
    draft.replace(path)


def hand_on_refusal(error: BallastError, message: str) -> None:
    """Hand on why the program refused."""
    refusal = Refusal(type(error).__name__, message, isinstance(error, MAY_HEAL))
    hand_on(**{REFUSAL: asdict(refusal)})


def read_handoff(path: Path) -> dict[str, Any]:
    """What has been handed on so far; nothing where the program did not come to it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def refusal_in(handed: Mapping[str, Any]) -> Refusal | None:
    """The refusal among what was handed on, if the program refused."""
    found = handed.get(REFUSAL)
    return Refusal(**found) if found else None
