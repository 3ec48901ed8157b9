"""How long each worker had something to do, and how much of it came back.

What came back over the time in which something was out is the rate a worker truly has: the true
processing rate of DS2 (Kalavri et al., OSDI 2018), seen from outside the worker.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ballast.streaming.region.clock import ForwardClock


class BusyTimes:
    """Not safe for threads: its owner holds a lock."""

    def __init__(self, count: int, clock: ForwardClock) -> None:
        self._clock = clock
        self._out = [0] * count
        self._since = [0.0] * count
        self._busy_s = [0.0] * count
        self._done = [0] * count

    def given(self, connection: int) -> None:
        if self._out[connection] == 0:
            self._since[connection] = self._clock.now()
        self._out[connection] += 1

    def taken_away(self, connection: int) -> None:
        """A record that another worker gets instead, or that came back."""
        self._out[connection] -= 1
        if self._out[connection] == 0:
            self._busy_s[connection] += self._clock.now() - self._since[connection]

    def came_back(self, connection: int) -> None:
        self._done[connection] += 1
        self.taken_away(connection)

    def reading(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Records that came back and seconds with something out, both since the start."""
        now = self._clock.now()
        running = [
            now - since if out else 0.0 for out, since in zip(self._out, self._since, strict=True)
        ]
        return np.array(self._done, dtype=np.int64), np.array(self._busy_s) + np.array(running)
