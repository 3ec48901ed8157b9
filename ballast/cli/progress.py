"""Prints the progress of a sweep to standard error: one line for each solved budget."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solvers.planner.frontier import FrontierPoint


class SweepProgress:
    """Callback of ``solvers.planner.frontier.sweep``; it is called after each point."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, point: FrontierPoint, count: int) -> None:
        self.done += 1
        result = point.result
        found = f"load distance {result.load_distance:.4g} %" if result.is_solved else "infeasible"
        print(
            f"{self.done}/{count} {point.unit} {limit_text(point)}: {found} "
            f"({result.seconds:.1f} s)",
            file=sys.stderr,
            flush=True,
        )


def limit_text(point: FrontierPoint) -> str:
    """Return the budget of a point as text."""
    return "no limit" if point.limit is None else f"at most {point.limit:,}"
