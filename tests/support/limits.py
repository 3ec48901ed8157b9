"""Time limits of tests.

A limit ends a test that would wait for ever. It does not judge how fast the machine is: it is
several times what a step usually takes, and grows with the slowness of the machine.
"""

from __future__ import annotations

from functools import cache

from embedded.machine_speed import measured_slowdown

MARGIN = 4.0


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
