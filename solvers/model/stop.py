"""Stopping rules of solvers: after some seconds, after a number of steps, or when done.

A stop after steps gives the same plan in each run; a stop by the clock does not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ballast.contracts.errors import InvalidInput
from solvers.model.parameter_checks import is_finite, is_whole


@dataclass(frozen=True, slots=True)
class Stop:
    """A stopping rule. A step is a branch-and-bound node (MILP) or a round (Flux)."""

    seconds: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not (is_finite(self.seconds) and self.seconds > 0):
            raise InvalidInput(
                f"stop.seconds is {self.seconds!r}",
                value=self.seconds,
                allowed="a finite number of seconds > 0, or absent",
            )
        if self.steps is not None and not is_whole(self.steps, at_least=1):
            raise InvalidInput(
                f"stop.steps is {self.steps!r}", value=self.steps, allowed="a whole number >= 1"
            )

    def start(self) -> SolverClock:
        """Start the clock of one solve."""
        return SolverClock(self.seconds)


@dataclass(frozen=True, slots=True)
class SolverClock:
    """The running clock of one solve."""

    seconds: float | None = None
    started: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def remaining(self) -> float | None:
        """Return the remaining seconds, at least 0; ``None`` without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - self.elapsed())

    def is_over(self) -> bool:
        return self.seconds is not None and self.elapsed() >= self.seconds
