"""The frontier of load distance against moves (or bytes): plans for a series of budgets.

One limit of the budget goes from zero to what an unlimited plan uses; the other limits stay. A plan
is dominated if another plan has no more moves (or bytes) and no larger load distance. Dominated
plans stay in the result and are marked, so that a reader can assess the sweep. A plan with less
traffic within nodes does not dominate a joint plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ballast.contracts.errors import InvalidInput
from ballast.contracts.tables import MEASURED
from solvers.collocate import joint
from solvers.model.budget import Budget
from solvers.model.objective import Objective
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.planner.allocation import AllocationOptions, allocate
from solvers.rebalance.compile_kernels import make_ready

Unit = Literal["moves", "bytes"]
UNITS: tuple[Unit, ...] = ("moves", "bytes")
MIN_POINTS, MAX_POINTS = 3, 200
TIE = 1e-6
"""Percentage points of load distance below which two plans are equally good."""
FULL_EFFECT = 0.95
"""Share of the improvement of the largest budget that the recommended budget has."""


@dataclass(frozen=True, eq=False, slots=True)
class FrontierPoint:
    """One budget of the sweep and the plan found within it; ``limit`` None is no limit."""

    unit: Unit
    limit: int | None
    result: Result
    is_dominated: bool = False

    @property
    def used(self) -> int:
        """Moves or bytes of the plan, by the unit of the sweep."""
        return self.result.moves if self.unit == "moves" else self.result.bytes

    def to_dict(self) -> dict[str, Any]:
        """The figures as values that JSON can hold."""
        result = self.result
        return {
            "swept": self.unit,
            "limit": self.limit,
            "status": result.status.value,
            "load_distance_pct": result.load_distance if result.is_solved else None,
            "traffic_within_nodes_pct": result.collocation_factor if result.is_solved else None,
            "bound_pct": result.bound,
            "gap_pct": result.gap,
            "moves": result.moves if result.is_solved else None,
            "bytes": result.bytes if result.is_solved else None,
            "pause_s": result.pause_s if result.is_solved else None,
            "forced_moves": result.forced_moves,
            "method": result.method,
            "on_front": result.is_solved and not self.is_dominated,
            "reason": "" if result.is_solved else result.reason,
        }


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How the plans of a sweep are searched for."""

    seed: int = 0
    points: int = 10
    """Number of budgets, from ``MIN_POINTS`` to ``MAX_POINTS``."""
    params: Mapping[str, Any] | None = None
    """Parameters of each method, by its name."""
    objective: Objective = field(default_factory=Objective)
    precision: str = MEASURED
    """How far each plan goes on improving, as in ``AllocationOptions``."""

    def __post_init__(self) -> None:
        if not MIN_POINTS <= self.points <= MAX_POINTS:
            raise InvalidInput(
                f"points is {self.points}",
                value=self.points,
                allowed=f"{MIN_POINTS} to {MAX_POINTS}",
            )


def sweep(
    problem: Problem,
    budget: Budget,
    unit: Unit,
    stop: Stop,
    options: SweepOptions | None = None,
    on_point: Callable[[FrontierPoint, int], None] | None = None,
) -> list[FrontierPoint]:
    """Plan for a series of budgets of one unit.

    Args:
        budget: the limits of the units that are not swept.
        unit: the unit that is swept, ``moves`` or ``bytes``.
        stop: the time is shared evenly by all points; the steps are for each point.
        on_point: called with each point when it is found, and the number of points.

    Returns:
        The points, smallest budget first, with dominated ones marked. If the problem has no plan,
        the one point without a limit.
    """
    options = options or SweepOptions()
    points = options.points
    make_ready(problem.n_resources > 1)  # Compile before the clock starts.
    clock = stop.start()
    free = replace(budget, **{unit: None})
    how = AllocationOptions(options.seed, params=options.params, precision=options.precision)

    def solve(limit: int | None, left: int) -> FrontierPoint:
        remaining = clock.remaining()
        share = None if remaining is None else max(remaining / left, 1e-3)
        limits = replace(free, **{unit: limit})
        each = Stop(share, stop.steps)
        found = allocate(options.objective, problem, limits, each, how)
        return FrontierPoint(unit, limit, found.result)

    report = on_point or (lambda *_: None)
    last = solve(None, points)
    report(last, points)
    if not last.result.is_solved:
        return [last]
    limits = budget_grid(last.used, points - 1, _smallest_step(problem, unit))
    found = [last]
    for i, limit in enumerate(limits):
        point = solve(limit, len(limits) - i)
        report(point, len(limits) + 1)
        found.append(point)
    return mark_dominated([*found[1:], last])


def budget_grid(most: int, count: int, smallest: int = 1) -> list[int]:
    """Zero, then at most ``count`` - 1 budgets below ``most`` in geometric steps."""
    if most <= 0:
        return [0]
    steps = np.geomspace(min(max(1, smallest), most), most, num=count)[:-1]
    return sorted({0, *np.rint(steps).astype(np.int64).tolist()} - {most})


def _smallest_step(problem: Problem, unit: Unit) -> int:
    """The smallest budget above zero of the grid: one move, or the median state of a key group."""
    if unit == "moves":
        return 1
    sizes = problem.state_bytes[problem.state_bytes > 0]
    return int(np.median(sizes)) if len(sizes) else 1


def mark_dominated(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """The points, with those marked that another point beats in load distance or in the unit."""
    solved = [point for point in points if point.result.is_solved]
    return [
        replace(point, is_dominated=any(_beats(other, point) for other in solved))
        if point.result.is_solved
        else point
        for point in points
    ]


def _beats(one: FrontierPoint, other: FrontierPoint) -> bool:
    if one is other:
        return False
    gain = other.result.load_distance - one.result.load_distance
    saving = other.used - one.used
    if gain < -TIE or saving < 0 or _traffic(one) < _traffic(other) - TIE:
        return False
    # Of two points with the same plan, the one with the smaller limit stays.
    return gain > TIE or saving > 0 or _limit(one) < _limit(other)


def _traffic(point: FrontierPoint) -> float:
    """Traffic within nodes of a joint plan; 0 for other plans, which are not made for it."""
    is_joint = point.result.method == joint.NAME
    return (point.result.collocation_factor or 0.0) if is_joint else 0.0


def _limit(point: FrontierPoint) -> float:
    return float("inf") if point.limit is None else float(point.limit)


def front(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """The points that are not dominated, cheapest first."""
    kept = [point for point in points if point.result.is_solved and not point.is_dominated]
    return sorted(kept, key=lambda point: point.used)


def recommended_point(points: Sequence[FrontierPoint]) -> FrontierPoint | None:
    """The cheapest point of the front with nearly the whole improvement; None if there is none."""
    kept = front(points)
    if len(kept) < 2:
        return None
    first, last = kept[0].result.load_distance, kept[-1].result.load_distance
    if first - last <= TIE:
        return None
    enough = first - FULL_EFFECT * (first - last)
    return next(point for point in kept if point.result.load_distance <= enough + TIE)
