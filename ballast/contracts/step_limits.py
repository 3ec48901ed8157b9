"""The limits of one step of a take-up (ADR 72)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepLimits:
    """What one step may move; None does not limit."""

    moves: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("moves", self.moves), ("bytes", self.bytes)):
            if value is not None and value < 1:
                raise ValueError(f"the limit on {name} of a step is {value}; allowed: 1 and above")

    @property
    def is_limited(self) -> bool:
        """Whether anything is limited."""
        return self.moves is not None or self.bytes is not None
