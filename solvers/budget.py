"""What a plan may cost at most: key groups moved, bytes moved, seconds of pause (any of them).

Forced moves (off dead nodes) are outside the budget and reported apart, as the design says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real

from ballast.contracts.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Budget:
    """Upper limits on the moves that are not forced; ``None`` means no limit."""

    moves: int | None = None
    bytes: int | None = None
    pause_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("moves", "bytes"):
            _check_whole_number(name, getattr(self, name))
        _check_seconds(self.pause_s)


def _check_whole_number(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 0:
        raise InvalidInput(
            f"budget.{name} is {value!r}",
            value=value,
            allowed="a whole number >= 0, or absent for no limit",
        )


def _check_seconds(value: object) -> None:
    if value is None:
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(float(value)) or float(value) < 0:  # type: ignore[arg-type]
        raise InvalidInput(
            f"budget.pause_s is {value!r}",
            value=value,
            allowed="a finite number of seconds >= 0, or absent for no limit",
        )
