"""Fault points for tests: the process kills itself at a named point of a take-up.

``BALLAST_FAULT_POINT`` names the point and the plan version, for example ``after_move@3``. Outside
of tests it is not set, and nothing happens.
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
    """Kills this process if ``BALLAST_FAULT_POINT`` names this point and version."""
    if os.environ.get(VARIABLE) == f"{point}@{version}":
        os.kill(os.getpid(), signal.SIGKILL)
