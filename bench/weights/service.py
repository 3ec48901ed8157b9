"""Service by timer: a worker takes a fixed time for each record, even if the machine is busy."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass, field
from typing import Any

CATCH_UP_S = 0.02
"""Sleeps end late; up to this delay is compensated, so that the capacity is the configured one."""
NEXT_S = 0.002
"""A record that arrives so soon after the last one was waiting, so the worker was not idle."""
LOOK_S = 0.05
"""Seconds between checks of a worker with a long record, whether its load was lifted."""


def shared_moment() -> Any:
    """A time of ``time.monotonic()`` that all workers read; 0 until it is set."""
    return multiprocessing.get_context("forkserver").RawValue("d", 0.0)


@dataclass
class TimedWork:
    """The work of a worker: ``service_s`` per record, and ``factors[j]`` times that under load.

    ``time.monotonic()`` is one clock for all processes of a machine. If the load is lifted while a
    record is processed, the rest of that record is fast as well.
    """

    service_s: float
    factors: tuple[float, ...]
    lifted: Any
    _free_at: float = field(default=0.0, repr=False)
    _ended_at: float = field(default=0.0, repr=False)

    def __call__(self, record: bytes) -> bytes:
        now = time.monotonic()
        was_idle = now - self._ended_at > NEXT_S
        start = now if was_idle else max(self._free_at, now - CATCH_UP_S)
        factor = self.factors[worker_number()]
        while True:
            self._free_at = finish(start, self.service_s, factor, self.lifted.value)
            left = self._free_at - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, LOOK_S) if factor > 1 else left)
        self._ended_at = time.monotonic()
        return record[:8]


def worker_number() -> int:
    """Return the number of a worker from the name of its process."""
    return int(multiprocessing.current_process().name.rpartition("-")[2])


def finish(start: float, service_s: float, factor: float, lifted_at: float) -> float:
    """The time at which a record is done that begins at ``start``; a moment of 0 is not set yet."""
    slow = start + service_s * factor
    if not lifted_at or slow <= lifted_at:
        return slow
    if start >= lifted_at:
        return start + service_s
    return lifted_at + service_s - (lifted_at - start) / factor
