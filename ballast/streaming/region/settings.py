"""Sizes and periods of an ordered region."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ballast.contracts.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class RegionSettings:
    """Sizes and periods. Buffers bound what a slow worker holds up before it is noticed."""

    send_buffer: int = 16_384
    receive_buffer: int = 16_384
    control_s: float = 1.0
    window_s: float = 10.0
    max_in_flight: int = 100_000
    """Records between splitter and merge, at most: they are kept until they are merged."""
    max_deaths: int = 3
    """A record that so many workers had in their hands when they died is what kills them."""
    reroute: bool = False
    """Send a record elsewhere rather than block [MW16-REGIONS, 4.4]: a baseline, not advice."""
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
