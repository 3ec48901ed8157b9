"""The speed of this machine, and time limits that grow with its slowness."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from embedded.errors import WaitedTooLong

T = TypeVar("T")

# Seconds until Airflow is healthy on two cores that do nothing else.
USUAL_START_S = 30.0


@dataclass
class MachineSpeed:
    """How many times slower than usual this machine is, by what was observed; at least 1."""

    slowdown: float = 1.0

    def observe(self, seconds: float, usual_s: float = USUAL_START_S) -> None:
        """Records that a step took ``seconds`` that usually takes ``usual_s``."""
        self.slowdown = max(self.slowdown, seconds / usual_s)

    def limit(self, usual_limit_s: float) -> float:
        """The limit of a wait that is ``usual_limit_s`` on a machine of usual speed."""
        return usual_limit_s * self.slowdown


def wait_while_progressing(
    look: Callable[[], T | None],
    progress: Callable[[], object],
    what: str,
    quiet_limit_s: Callable[[], float],
    every_s: float = 1.0,
) -> T:
    """Waits for something as long as there is progress.

    Args:
        look: returns what is waited for, or None.
        progress: returns a value that changes when there is progress; called after each look.
        what: what has not happened, for the error.
        quiet_limit_s: returns the seconds that may pass without progress.
        every_s: seconds between two looks.

    Raises:
        WaitedTooLong: there was no progress for longer than the limit.
    """
    seen, since = progress(), time.monotonic()
    while True:
        found = look()
        if found is not None:
            return found
        now, latest = time.monotonic(), progress()
        if latest != seen:
            seen, since = latest, now
        limit = quiet_limit_s()
        if now - since >= limit:
            raise WaitedTooLong(f"{what}: no progress for {limit:.0f} s")
        time.sleep(every_s)
