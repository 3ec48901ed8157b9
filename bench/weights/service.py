"""Service by timer: a worker that takes a set time a record, whatever else the machine does."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass, field

CATCH_UP_S = 0.02
"""Sleeps end late; so much is made up for, so that the capacity is what was set."""
NEXT_S = 0.002
"""A record that is there so soon after the last one was waiting: the worker was not idle."""


@dataclass
class TimedWork:
    """Worker j takes ``service_s`` a record, ``factors[j]`` times as long until ``lifted_at``.

    Moments are of ``time.monotonic()``, which is one clock for all processes of a machine. Load
    that is lifted while a record is in hand makes the rest of that record fast as well.
    """

    service_s: float
    factors: tuple[float, ...]
    lifted_at: float
    _free_at: float = field(default=0.0, repr=False)
    _ended_at: float = field(default=0.0, repr=False)

    def __call__(self, record: bytes) -> bytes:
        now = time.monotonic()
        was_idle = now - self._ended_at > NEXT_S
        start = now if was_idle else max(self._free_at, now - CATCH_UP_S)
        factor = self.factors[worker_number()]
        self._free_at = finish(start, self.service_s, factor, self.lifted_at)
        time.sleep(max(0.0, self._free_at - now))
        self._ended_at = time.monotonic()
        return record[:8]


def worker_number() -> int:
    """A region names its processes by their connections."""
    return int(multiprocessing.current_process().name.rpartition("-")[2])


def finish(start: float, service_s: float, factor: float, lifted_at: float) -> float:
    """When a record that is begun at ``start`` is done."""
    slow = start + service_s * factor
    if start >= lifted_at:
        return start + service_s
    if slow <= lifted_at:
        return slow
    left = service_s - (lifted_at - start) / factor
    return lifted_at + left
