"""Service by timer: a worker that takes a set time a record, whatever else the machine does."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass, field
from typing import Any

CATCH_UP_S = 0.02
"""Sleeps end late; so much is made up for, so that the capacity is what was set."""
NEXT_S = 0.002
"""A record that is there so soon after the last one was waiting: the worker was not idle."""
LOOK_S = 0.05
"""How often a worker that has a long record in hand looks whether its load was lifted."""


def shared_moment() -> Any:
    """A moment of ``time.monotonic()`` that all workers see; 0 as long as it has not come."""
    return multiprocessing.get_context("forkserver").RawValue("d", 0.0)


@dataclass
class TimedWork:
    """Worker j takes ``service_s`` a record, ``factors[j]`` times as long until the load is lifted.

    ``time.monotonic()`` is one clock for all processes of a machine. Load that is lifted while a
    record is in hand makes the rest of that record fast as well.
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
    """A region names its processes by their connections."""
    return int(multiprocessing.current_process().name.rpartition("-")[2])


def finish(start: float, service_s: float, factor: float, lifted_at: float) -> float:
    """When a record that is begun at ``start`` is done; a moment of 0 has not come yet."""
    slow = start + service_s * factor
    if not lifted_at or slow <= lifted_at:
        return slow
    if start >= lifted_at:
        return start + service_s
    return lifted_at + service_s - (lifted_at - start) / factor
