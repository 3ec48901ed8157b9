"""The verdicts of the benchmark of promises fail where they should, and count what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ballast.contracts.tables import EXACT, MEASURED
from bench.promises import verdicts
from bench.promises.experiments import (
    ORACLE_EVERY,
    SHIFT_POINTS,
    CoverageFigures,
    ExperimentTask,
    JobRounds,
    PlanCosts,
    coverage_figures,
    plan_costs,
    shift_factors,
)
from bench.promises.rounds import PromiseRound, load_distances

TASK = ExperimentTask("coverage", "quiet", MEASURED, 0, 1)
GOOD = CoverageFigures(
    rounds=1000, inside_pct=90.0, below_pct=5.0, above_pct=5.0, without_pct=10.0, plans=400,
    plans_inside_pct=88.0,
    width=12.0, oracle_width=10.0, expected=5.0, measured=5.0,
)  # fmt: skip


def a_round(measured: float = 5.0, low: float | None = 3.0, plan: bool = False) -> PromiseRound:
    high = None if low is None else low + 4.0
    oracle = (4.0, 6.0) if low is not None else (None, None)
    return PromiseRound(
        is_plan=plan, moves=3 if plan else 0, bytes=30 if plan else 0, before=6.0, expected=5.0,
        low=low, high=high, measured=measured, oracle_low=oracle[0], oracle_high=oracle[1],
        reason="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, 0),
        ({"inside_pct": 84.9}, 1),
        ({"inside_pct": 95.1}, 1),
        ({"without_pct": 20.1}, 1),
        ({"width": 15.1}, 1),
    ],
)
def test_each_verdict_on_intervals_can_fail(change: dict[str, Any], failing: int) -> None:
    found = verdicts.of_coverage({"quiet": GOOD, "zipf": replace(GOOD, **change)})
    assert len(found) == 8
    failed = [verdict for verdict in found if not verdict.holds]
    assert [verdict.claim.startswith("zipf: ") for verdict in failed] == [True] * failing


def test_the_oracle_is_asked_after_disturbances_as_well() -> None:
    assert ORACLE_EVERY % 2


def test_rounds_without_a_promise_are_counted_apart() -> None:
    rounds = [
        a_round(plan=True),
        a_round(8.0, plan=True),
        a_round(2.0),
        a_round(),
        *[a_round(low=None)] * 4,
    ]
    found = coverage_figures(
        [JobRounds(TASK, tuple(rounds[:3])), JobRounds(TASK, tuple(rounds[3:]))]
    )
    assert (found.rounds, found.without_pct) == (8, 50.0)
    assert (found.inside_pct, found.below_pct, found.above_pct) == (50.0, 25.0, 25.0)
    assert (found.plans, found.plans_inside_pct) == (2, 50.0)
    assert found.width_ratio == pytest.approx(2.0)


@pytest.mark.parametrize(("plans", "holds"), [(2, True), (3, False)])
def test_more_than_one_plan_in_200_rounds_from_noise_fails(plans: int, holds: bool) -> None:
    rounds = [a_round(plan=number < plans) for number in range(400)]
    costs = {
        MEASURED: plan_costs([JobRounds(TASK, tuple(rounds))]),
        EXACT: PlanCosts(1, 1, 1, 1, 1),
    }
    (found,) = verdicts.of_level({"quiet": costs})
    assert found.holds is holds


@pytest.mark.parametrize(("answered", "holds"), [(95.0, True), (94.5, False)])
def test_shifts_that_are_not_answered_fail(answered: float, holds: bool) -> None:
    (found,) = verdicts.of_shift(answered)
    assert found.holds is holds


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, ""),
        ({"moves": 51}, "moves"),
        ({"bytes": 501}, "bytes"),
        ({"measured": 5.6}, "distance"),
    ],
)
def test_moves_bytes_and_load_distance_are_compared_with_the_other_rule(
    change: dict[str, Any], failing: str
) -> None:
    ours = replace(PlanCosts(rounds=50, plans=5, moves=50, bytes=500, measured=5.5), **change)
    theirs = PlanCosts(rounds=50, plans=50, moves=100, bytes=1000, measured=5.0)
    found = verdicts.of_saving({"quiet": {MEASURED: ours, EXACT: theirs}})
    assert len(found) == 3
    failed = [verdict.claim for verdict in found if not verdict.holds]
    assert len(failed) == bool(failing)
    assert all(failing in claim for claim in failed)


@pytest.mark.parametrize("groups", [[0, 1], [1]])
def test_a_shift_puts_its_node_so_many_points_further_above_the_mean(groups: list[int]) -> None:
    mean = np.array([1.0, 2.0, 1.0, 2.0, 3.0, 3.0, 1.0, 2.0])
    node = np.array([0, 0, 1, 1, 2, 3, 3, 2])
    factors = shift_factors(mean, np.array(groups), 4)

    def above(loads: np.ndarray) -> float:
        sums = np.bincount(node, loads)
        return float(100 * (sums[0] / sums.mean() - 1))

    # The mean rises with it, by about 5 / 3 percent of the mean.
    assert above(mean * factors) - above(mean) == pytest.approx(SHIFT_POINTS, rel=0.05)


def test_a_sample_of_loads_has_the_load_distance_of_its_nodes() -> None:
    means = np.array([[1.0, 1.0, 1.0, 1.0], [3.0, 1.0, 1.0, 1.0]])
    found = load_distances(means, np.array([0, 0, 1, 1]), np.array([1.0, 1.0]))
    assert found == pytest.approx([0.0, 100 / 3])
