"""A sweep over budgets: what load distance each number of moves, or of bytes, can buy.

One unit of the budget is swept from nothing to what an unlimited plan uses, while the other limits
hold. A plan that another one beats, with no more moves (or bytes) and no larger a load distance, is
dominated: it is kept and marked, for a sweep that hides its failures cannot be judged. A joint plan
is not beaten by one that has less traffic within nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.collocate import joint
from solvers.model.budget import Budget
from solvers.model.objective import Objective
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.planner.allocation import AllocationOptions, allocate
from solvers.rebalance.warm import make_ready

Unit = Literal["moves", "bytes"]
UNITS: tuple[Unit, ...] = ("moves", "bytes")
MIN_POINTS, MAX_POINTS = 3, 200
TIE = 1e-6
"""Percentage points of load distance below which two plans are equally good."""
FULL_EFFECT = 0.95
"""The budget to look at first buys this share of what the largest one does."""


@dataclass(frozen=True, eq=False, slots=True)
class FrontierPoint:
    """One budget of the sweep and the plan found within it. ``limit`` None: not limited."""

    unit: Unit
    limit: int | None
    result: Result
    is_dominated: bool = False

    @property
    def used(self) -> int:
        """What the plan takes of the unit that is swept."""
        return self.result.moves if self.unit == "moves" else self.result.bytes

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON can hold them."""
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


def sweep(
    problem: Problem,
    budget: Budget,
    unit: Unit,
    stop: Stop,
    *,
    seed: int = 0,
    points: int = 10,
    params: Mapping[str, Any] | None = None,
    objective: Objective | None = None,
    on_point: Callable[[FrontierPoint, int], None] | None = None,
) -> list[FrontierPoint]:
    """Plan for ``points`` budgets of one unit, the smallest first.

    The time is shared evenly among the points that are left; steps are each point's own.
    ``on_point`` is told each point as it is found, and how many there will be.
    """
    if not MIN_POINTS <= points <= MAX_POINTS:
        raise InvalidInput(
            f"points is {points}", value=points, allowed=f"{MIN_POINTS} to {MAX_POINTS}"
        )
    make_ready(problem.n_resources > 1)  # Before the clock runs: the points share its time.
    clock = stop.start()
    free = replace(budget, **{unit: None})
    aim = objective or Objective()

    def solve(limit: int | None, left: int) -> FrontierPoint:
        remaining = clock.remaining()
        share = None if remaining is None else max(remaining / left, 1e-3)
        limits = replace(free, **{unit: limit})
        each = Stop(share, stop.steps)
        found = allocate(aim, problem, limits, each, AllocationOptions(seed, params=params))
        return FrontierPoint(unit, limit, found.result)

    tell = on_point or (lambda *_: None)
    last = solve(None, points)
    tell(last, points)
    if not last.result.is_solved:
        return [last]
    limits = budget_grid(last.used, points - 1, _smallest_step(problem, unit))
    found = [last]
    for i, limit in enumerate(limits):
        point = solve(limit, len(limits) - i)
        tell(point, len(limits) + 1)
        found.append(point)
    return mark_dominated([*found[1:], last])


def budget_grid(most: int, count: int, smallest: int = 1) -> list[int]:
    """Nothing, then at most ``count`` - 1 budgets below ``most``, each a like factor larger."""
    if most <= 0:
        return [0]
    steps = np.geomspace(min(max(1, smallest), most), most, num=count)[:-1]
    return sorted({0, *np.rint(steps).astype(np.int64).tolist()} - {most})


def _smallest_step(problem: Problem, unit: Unit) -> int:
    """The smallest budget that can buy a move at all, as far as it is worth a point."""
    if unit == "moves":
        return 1
    sizes = problem.state_bytes[problem.state_bytes > 0]
    return int(np.median(sizes)) if len(sizes) else 1


def mark_dominated(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """Mark every point that another one beats in load distance, in the swept unit, or both."""
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
    # Of two points with one and the same plan, the one with the smaller limit is kept.
    return gain > TIE or saving > 0 or _limit(one) < _limit(other)


def _traffic(point: FrontierPoint) -> float:
    """What a joint plan is for as well; only such a plan tells."""
    is_joint = point.result.method == joint.NAME
    return (point.result.collocation_factor or 0.0) if is_joint else 0.0


def _limit(point: FrontierPoint) -> float:
    return float("inf") if point.limit is None else float(point.limit)


def front(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """The points that nothing beats, cheapest first."""
    kept = [point for point in points if point.result.is_solved and not point.is_dominated]
    return sorted(kept, key=lambda point: point.used)


def worth_looking_at(points: Sequence[FrontierPoint]) -> FrontierPoint | None:
    """The cheapest point of the front with nearly the whole effect, or None without an effect."""
    kept = front(points)
    if len(kept) < 2:
        return None
    first, last = kept[0].result.load_distance, kept[-1].result.load_distance
    if first - last <= TIE:
        return None
    enough = first - FULL_EFFECT * (first - last)
    return next(point for point in kept if point.result.load_distance <= enough + TIE)
