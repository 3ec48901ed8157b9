"""Sizes and periods of an ordered region."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ballast.contracts.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class RegionSettings:
    """Sizes and periods; small buffers show early that a worker is slow."""

    send_buffer: int = 16_384
    receive_buffer: int = 16_384
    control_s: float = 1.0
    window_s: float = 10.0
    max_in_flight: int = 100_000
    """Records between splitter and merge, at most; they stay in memory until merged."""
    max_deaths: int = 3
    """A record during which this many workers died ends the region."""
    reroute: bool = False
    """Send a record to another worker instead of blocking [MW16-REGIONS, 4.4]; for benchmarks."""
    read_clock: Callable[[], float] = time.monotonic
    """Gives seconds; the region's own clock never goes back, even if this one does."""

    def __post_init__(self) -> None:
        for name in ("send_buffer", "receive_buffer", "max_in_flight", "max_deaths"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} is {getattr(self, name)}", allowed="1 or more")
        if not (self.control_s > 0 and self.window_s > 0):
            raise InvalidInput(
                f"control_s {self.control_s}, window_s {self.window_s}", allowed="above 0"
            )
