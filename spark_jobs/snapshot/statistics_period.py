"""The statistics period: the windows that a snapshot condenses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ballast.contracts.policy import JobPolicy


@dataclass(frozen=True)
class StatisticsPeriod:
    """A number of windows, the last of which ends at ``end``."""

    end: datetime
    window: timedelta
    windows: int

    @property
    def start(self) -> datetime:
        """Start of the first window."""
        return self.back(self.windows)

    @property
    def ends(self) -> tuple[datetime, ...]:
        """The ends of the windows, oldest first."""
        return tuple(self.back(n) for n in reversed(range(self.windows)))

    def back(self, windows: int) -> datetime:
        """The time that is this number of windows before the end."""
        return self.end - windows * self.window

    def windows_since(self, time: datetime) -> int:
        """Number of windows between a time and the end."""
        return round((self.end - time) / self.window)


def period_ending_at(policy: JobPolicy, end: datetime) -> StatisticsPeriod:
    """The policy's statistics period whose last window ends at ``end``."""
    return StatisticsPeriod(end, timedelta(seconds=policy.window_s), policy.windows_per_period)
