"""Fault points: tests can kill a program with SIGKILL at a named point.

Only tests set ``BALLAST_FAULT_POINT``; without it :func:`fault_point` does nothing.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "BALLAST_FAULT_POINT"


def fault_point(name: str) -> None:
    """Kill this process, without any clean-up, if the environment names this point."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
