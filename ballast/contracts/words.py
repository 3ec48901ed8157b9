"""What a plan's figures mean, in words: the same in a run's report and on the command line."""

from __future__ import annotations

from collections.abc import Sequence

PROVEN = 1e-9
"""A gap that is not above this is 0: solvers write 0 where optimality is proven."""
MOST_STEPS = 5


def quality(bound_pct: float, gap_pct: float) -> str:
    """How good a plan is, as far as it is proven."""
    if gap_pct <= PROVEN:
        return "proven optimal: no plan within the budget has a smaller load distance"
    return (
        f"at most {_points(gap_pct)} points from the best possible: "
        f"no plan within the budget is below {bound_pct:.2f} %"
    )


def progress(trace: Sequence[Sequence[object]]) -> str:
    """How the best load distance fell over time, in a few steps; empty without a trace."""
    better = _improvements(trace)
    if not better:
        return ""
    shown = better if len(better) <= MOST_STEPS else [better[0], *better[-(MOST_STEPS - 1) :]]
    return ", ".join(f"{_points(pct)} % after {s:.2f} s ({step})" for s, step, pct in shown)


def _improvements(trace: Sequence[Sequence[object]]) -> list[tuple[float, str, float]]:
    """The steps of a trace at which the best load distance was lowered."""
    better: list[tuple[float, str, float]] = []
    for seconds, step, distance in trace:
        value = float(str(distance))
        if not better or value < better[-1][2]:
            better.append((float(str(seconds)), str(step), value))
    return better


def _points(percent: float) -> str:
    """Digits that mean something, however small the figure is."""
    return f"{percent:.2f}" if percent >= 0.1 or percent == 0 else f"{percent:.2g}"
