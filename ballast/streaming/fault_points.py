"""A hook for tests: die by SIGKILL at a named point of the batch that takes a plan up.

``BALLAST_FAULT_POINT`` names the point and the plan version, as in ``after_move@3``; unset, as it
is outside of tests, nothing happens.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "BALLAST_FAULT_POINT"
POINTS = (
    "after_decision",
    "during_move",
    "all_copied",
    "moves_recorded",
    "after_move",
    "after_state",
    "after_metrics",
    "before_ack",
    "after_ack",
)


def fault_point(point: str, version: int) -> None:
    """Die here if a test asked for it."""
    if os.environ.get(VARIABLE) == f"{point}@{version}":
        os.kill(os.getpid(), signal.SIGKILL)
