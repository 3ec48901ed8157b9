"""A sweep over budgets: more budget never costs balance, and dominated points are marked."""

from __future__ import annotations

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import SolverRun, make_result
from solvers.model.stop import Stop
from solvers.planner.frontier import (
    FrontierPoint,
    SweepOptions,
    Unit,
    budget_grid,
    front,
    mark_dominated,
    sweep,
)
from solvers.verify.assignment import verify
from tests.unit.solvers.instances import make, names


def cluster() -> Problem:
    rng = np.random.default_rng(4)
    return make(
        rng.lognormal(0, 0.8, 30), rng.integers(0, 3, 30), state_bytes=rng.integers(1, 900, 30)
    )


@pytest.mark.parametrize("unit", ["moves", "bytes"])
def test_every_point_keeps_its_budget_and_its_promises(unit: Unit) -> None:
    problem = cluster()
    points = sweep(problem, Budget(), unit, Stop(seconds=2), SweepOptions(points=5))
    assert points[0].used == 0
    assert points[-1].limit is None
    for point in points:
        budget = Budget(**{unit: point.limit})
        assignment = names(problem, point.result.assignment)
        assert verify(problem, budget, assignment, point.result.to_dict()) == []


def test_the_front_falls() -> None:
    kept = front(sweep(cluster(), Budget(), "moves", Stop(seconds=2), SweepOptions(points=6)))
    assert len(kept) >= 3
    distances = [point.result.load_distance for point in kept]
    assert distances == sorted(distances, reverse=True)
    assert [point.used for point in kept] == sorted({point.used for point in kept})


def test_the_other_limits_hold_while_one_is_swept() -> None:
    points = sweep(
        cluster(), Budget(moves=2, bytes=500), "moves", Stop(seconds=1), SweepOptions(points=3)
    )
    assert max(point.result.bytes for point in points) <= 500


def test_what_another_point_beats_is_marked() -> None:
    problem = make([2, 2, 0], [0, 0, 0], nodes=2)

    def point(limit: int, plan: list[int]) -> FrontierPoint:
        result = make_result(problem, np.array(plan), SolverRun(method="test", bound=0, seconds=0))
        return FrontierPoint("moves", limit, result)

    nothing, level, wasteful = point(0, [0, 0, 0]), point(1, [0, 1, 0]), point(2, [0, 1, 1])
    marked = mark_dominated([nothing, level, wasteful, point(3, [0, 1, 0])])
    assert [one.is_dominated for one in marked] == [False, False, True, True]
    assert [one.limit for one in front(marked)] == [0, 1]


def test_an_infeasible_problem_is_one_point_with_the_reason() -> None:
    points = sweep(make([1.0], [0], states=["dead"]), Budget(), "moves", Stop(seconds=1))
    assert [point.result.is_solved for point in points] == [False]
    assert points[0].to_dict()["reason"]


def test_the_grid_starts_at_nothing_and_stays_below_the_most() -> None:
    assert budget_grid(0, 9) == [0]
    assert budget_grid(1, 9) == [0]
    assert budget_grid(100, 5) == [0, 1, 3, 10, 32]
    assert budget_grid(10**12, 4, smallest=10**6)[1] == 10**6


def test_too_few_points_are_refused() -> None:
    with pytest.raises(InvalidInput, match="points is 2"):
        sweep(cluster(), Budget(), "moves", Stop(seconds=1), SweepOptions(points=2))
