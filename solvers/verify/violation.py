"""A promise that a plan breaks, as every part of the verifier reports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_NAMED = 3
"""A message names at most this many key groups or nodes."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that does not hold: its name, and what is wrong."""

    promise: str
    message: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.message}"


def first_names(names: Sequence[Any], rows: npt.NDArray[np.int64] | None = None) -> str:
    """The first few names, and the number of the others. ``rows`` selects some of the names."""
    count = len(names) if rows is None else len(rows)
    first = range(min(MAX_NAMED, count)) if rows is None else rows[:MAX_NAMED].tolist()
    shown = ", ".join(repr(names[i]) for i in first)
    return shown + (f" and {count - MAX_NAMED} more" if count > MAX_NAMED else "")
