"""Measures how long each worker had records, and how many results came back.

Results divided by the time in which a worker had records is its true processing rate, as in DS2
(Kalavri et al., OSDI 2018), measured from outside the worker.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ballast.streaming.clock import ForwardClock


class BusyTimes:
    """Not thread-safe: the owner holds a lock."""

    def __init__(self, count: int, clock: ForwardClock) -> None:
        self._clock = clock
        self._out = [0] * count
        self._since = [0.0] * count
        self._busy_s = [0.0] * count
        self._done = [0] * count

    def sent(self, connection: int) -> None:
        if self._out[connection] == 0:
            self._since[connection] = self._clock.now()
        self._out[connection] += 1

    def withdrawn(self, connection: int) -> None:
        """A record left the worker: its result came back, or another worker got it."""
        self._out[connection] -= 1
        if self._out[connection] == 0:
            self._busy_s[connection] += self._clock.now() - self._since[connection]

    def returned(self, connection: int) -> None:
        self._done[connection] += 1
        self.withdrawn(connection)

    def reading(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Results that came back and seconds with records, both since the start, by worker."""
        now = self._clock.now()
        running = [
            now - since if out else 0.0 for out, since in zip(self._out, self._since, strict=True)
        ]
        return np.array(self._done, dtype=np.int64), np.array(self._busy_s) + np.array(running)
