"""Time limits of tests.

A limit ends a test that would otherwise wait for ever. It is no requirement on the speed of the
machine: it is several times what a step usually takes, and grows with the slowness of the machine.
"""

from __future__ import annotations

import time
from functools import cache

from embedded.machine_speed import MachineSpeed

MARGIN = 4.0
# A fixed loop and its wall-clock time on one core that does nothing else.
PROBE_ROUNDS = 20_000_000
USUAL_PROBE_S = 0.4


def measured_slowdown() -> float:
    """How many times longer than usual a fixed loop takes now; at least 1.

    Wall-clock time is measured, so that other programs on the same cores count.
    """
    began = time.monotonic()
    for _ in range(PROBE_ROUNDS):
        pass
    speed = MachineSpeed()
    speed.observe(time.monotonic() - began, USUAL_PROBE_S)
    return speed.slowdown


@cache
def slowdown() -> float:
    """How many times slower than usual this machine is, measured once in a test process."""
    return measured_slowdown()


def limit_s(usual_limit_s: float) -> float:
    """The limit in seconds for a wait that a quiet machine ends within ``usual_limit_s``."""
    return MARGIN * usual_limit_s * slowdown()


def limit_ms(usual_limit_s: float) -> float:
    """The same limit in milliseconds, as Playwright takes it."""
    return 1000.0 * limit_s(usual_limit_s)
