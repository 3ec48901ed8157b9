"""Fault points: tests can kill a process with SIGKILL at a named point.

Only tests set ``BALLAST_FAULT_POINT``; without it :func:`fault_point` does nothing. A point of a
streaming job is named with the plan version, for example ``after_move@3``, and with the step if
there are several, ``after_move@3.2``; a point of a program with the program, for example
``solve.after_plan``.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "BALLAST_FAULT_POINT"
JOB_POINTS = (
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
"""The points of a streaming job, in the order of one batch."""


def fault_point(name: str, version: int | str | None = None) -> None:
    """Kill this process, without any clean-up, if the environment names this point."""
    point = name if version is None else f"{name}@{version}"
    if os.environ.get(VARIABLE) == point:
        os.kill(os.getpid(), signal.SIGKILL)
