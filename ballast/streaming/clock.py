"""A clock that never goes back, even if the clock that it reads does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class ForwardClock:
    """Seconds since 1970 that only increase.

    If the clock that it reads steps back, no time is added, and time continues from there. No
    duration is negative, no window comes twice, and a step back by an hour does not stop the clock
    for an hour.
    """

    def __init__(self, read: Callable[[], float] = time.monotonic, at: float | None = None) -> None:
        self._read = read
        self._now = time.time() if at is None else at
        self._last = read()
        self._lock = threading.Lock()

    def now(self) -> float:
        with self._lock:
            reading = self._read()
            self._now += max(0.0, reading - self._last)
            self._last = reading
            return self._now

    def now_ms(self) -> int:
        """The time in whole milliseconds."""
        return int(1000.0 * self.now())
