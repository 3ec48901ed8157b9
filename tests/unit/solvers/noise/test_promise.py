"""Promises have ordered intervals, or none and a reason that is true."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ballast.contracts.promise_side import promise_side
from ballast.contracts.tables import ABOVE, BELOW, INSIDE
from solvers.model.noise import LoadNoise
from solvers.noise.calibration import PastOutcome
from solvers.noise.promise import (
    FEWEST_OUTCOMES,
    ExpectedFigure,
    FigurePromise,
    PlanPromiseRequest,
    plan_promises,
)
from tests.unit.solvers.noise.worlds import NODES, noisy_problem

BYTES = "bytes"


def promises(request: PlanPromiseRequest) -> dict[str, FigurePromise]:
    return {each.figure: each for each in plan_promises(request)}


def of_bytes(expected: float, outcomes: list[PastOutcome]) -> FigurePromise:
    problem = noisy_problem(1, relative_error=0.1)
    request = PlanPromiseRequest(
        problem=problem, assignment=problem.current, after=problem,
        figures=[ExpectedFigure(BYTES, "bytes", expected)], outcomes={BYTES: outcomes},
    )  # fmt: skip
    return promises(request)[BYTES]


def outcomes(*ratios: float) -> list[PastOutcome]:
    return [PastOutcome(10.0, 10.0, 10.0, 1.0, 1.0, 10.0 * ratio) for ratio in ratios]


@pytest.mark.parametrize("error", [0.0, 1e-9, 0.1, 30.0])
@pytest.mark.parametrize("nodes", [1, 2, NODES])
@pytest.mark.parametrize("groups", [1, 60])
def test_intervals_are_finite_ordered_and_not_negative(
    error: float, nodes: int, groups: int
) -> None:
    problem = noisy_problem(3, relative_error=error, groups=groups, nodes=nodes)
    for each in plan_promises(PlanPromiseRequest(problem=problem, assignment=problem.current,
                                                 after=problem)):  # fmt: skip
        assert each.low is not None
        assert each.high is not None
        ends = [each.lowest or 0.0, each.low, each.expected, each.high, each.highest or 0.0]
        assert all(math.isfinite(end) for end in ends)
        assert ends == sorted(ends)
        assert ends[0] >= 0


def test_constant_loads_are_promised_as_points() -> None:
    problem = noisy_problem(3, relative_error=0.0)
    noise = problem.noise
    assert noise is not None
    problem = replace(problem, noise=replace(noise, common_period_sd=np.zeros(1)))
    for each in plan_promises(PlanPromiseRequest(problem=problem, assignment=problem.current,
                                                 after=problem)):  # fmt: skip
        assert each.low == pytest.approx(each.expected)
        assert each.high == pytest.approx(each.expected)


def test_a_job_without_load_promises_zero() -> None:
    problem = noisy_problem(3, relative_error=0.0)
    nothing = np.zeros_like(problem.load)
    idle = replace(problem, load=nothing, noise=LoadNoise(nothing, nothing, np.ones(1), 12))
    for each in plan_promises(PlanPromiseRequest(problem=idle, assignment=idle.current,
                                                 after=idle)):  # fmt: skip
        assert (each.low, each.expected, each.high) == (0.0, 0.0, 0.0)


def test_a_figure_without_a_noise_model_gets_the_spread_of_earlier_outcomes() -> None:
    found = of_bytes(100.0, outcomes(0.9, 1.0, 1.1, 1.2, 1.0))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.expected < found.high
    assert found.expected == pytest.approx(100.0, rel=0.1)


def test_too_few_outcomes_give_no_interval_and_their_number() -> None:
    found = of_bytes(100.0, outcomes(*[1.0] * (FEWEST_OUTCOMES - 1)))
    assert (found.low, found.expected) == (None, 100.0)
    assert found.reason == f"{FEWEST_OUTCOMES - 1} earlier outcomes; an interval needs 5"


def test_an_expected_zero_has_no_relative_spread_and_says_so() -> None:
    found = of_bytes(0.0, outcomes(*[1.0] * FEWEST_OUTCOMES))
    assert (found.low, found.expected) == (None, 0.0)
    assert found.reason == "the spread of earlier outcomes is relative, and the plan expects 0"


@pytest.mark.parametrize(
    ("measured", "low", "high", "side"),
    [
        (2.9, 3.0, 4.0, BELOW),
        (3.0, 3.0, 4.0, INSIDE),
        (4.1, 3.0, 4.0, ABOVE),
        # Points, as constant loads and a single node have them, and what rounding makes of them.
        (8e-15, 0.0, 0.0, INSIDE),
        (0.1 + 0.2, 0.3, 0.3, INSIDE),
        (123456.7890001, 123456.789, 123456.789, INSIDE),
        (1e-4, 0.0, 0.0, ABOVE),
        (0.2999, 0.3, 0.3, BELOW),
    ],
)
def test_rounding_puts_no_measured_value_outside(
    measured: float, low: float, high: float, side: str
) -> None:
    assert promise_side(measured, low, high) == side
