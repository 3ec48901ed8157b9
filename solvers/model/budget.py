"""The limits of a plan: key groups moved, bytes moved, seconds of pause (any of them).

Forced moves (off dead nodes) are outside the budget and reported separately.
"""

from __future__ import annotations

from dataclasses import dataclass

from ballast.contracts.errors import InvalidInput
from solvers.model.parameter_checks import is_finite_and_not_negative, is_whole

LARGEST = 2**63
"""Moves and bytes are counted in 64 bits."""


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

    @property
    def pause_slack_s(self) -> float:
        """Tolerance for rounding in sums of pauses."""
        return max(1e-9, 1e-11 * (self.pause_s or 0.0))


def _check_whole_number(name: str, value: object) -> None:
    if value is None:
        return
    if not is_whole(value, at_least=0, below=LARGEST):
        raise InvalidInput(
            f"budget.{name} is {value!r}",
            value=value,
            allowed=f"a whole number >= 0 and < {LARGEST}, or absent for no limit",
        )


def _check_seconds(value: object) -> None:
    if value is None:
        return
    if not is_finite_and_not_negative(value):
        raise InvalidInput(
            f"budget.pause_s is {value!r}",
            value=value,
            allowed="a finite number of seconds >= 0, or absent for no limit",
        )
