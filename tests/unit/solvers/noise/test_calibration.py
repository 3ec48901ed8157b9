"""Earlier outcomes set the width of the next intervals, within bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from solvers.noise.calibration import (
    NARROWEST,
    OUTCOMES_USED,
    PSEUDO_WIDTH,
    WIDEST,
    IntervalFactors,
    PastOutcome,
    interval_factors,
)

EXPECTED, END = 10.0, 1.812
"""The end of an interval of standard deviation 1, by Student's t with 10 degrees of freedom."""


def after(outcomes: list[PastOutcome], measured: float, weight: float = 1.0) -> PastOutcome:
    """The outcome of a promise with the factors that follow from earlier outcomes."""
    factors = interval_factors(outcomes)
    return PastOutcome(
        EXPECTED, max(0.0, EXPECTED - factors.below * END), EXPECTED + factors.above * END,
        factors.below, factors.above, measured, weight,
    )  # fmt: skip


def history(measured: Callable[[int], float], count: int) -> list[PastOutcome]:
    outcomes: list[PastOutcome] = []
    for number in range(count):
        outcomes.append(after(outcomes, measured(number)))
    return outcomes


def inside(outcomes: list[PastOutcome]) -> float:
    return float(np.mean([each.low <= each.measured <= each.high for each in outcomes]))


def test_without_outcomes_intervals_are_a_little_wider_than_the_noise_model_says() -> None:
    assert interval_factors([]) == IntervalFactors(PSEUDO_WIDTH, PSEUDO_WIDTH)


@pytest.mark.parametrize("spread", [0.7, 1.0, 2.0])
def test_nine_of_ten_are_inside_whatever_the_noise_model_says(spread: float) -> None:
    rng = np.random.default_rng(5)
    outcomes = history(lambda _: float(rng.normal(EXPECTED, spread)), 600)
    assert 0.84 <= inside(outcomes[200:]) <= 0.96


def test_a_side_that_is_missed_again_and_again_gets_wider_and_never_beyond_the_bound() -> None:
    factors = interval_factors(history(lambda _: 5 * EXPECTED, 60))
    assert factors.above == WIDEST
    assert factors.below <= 1.0


def test_intervals_come_back_after_some_misses() -> None:
    rng = np.random.default_rng(6)
    missed = interval_factors(history(lambda _: 5 * EXPECTED, 3))
    later = history(lambda n: 5 * EXPECTED if n < 3 else float(rng.normal(EXPECTED, 1)), 200)
    assert missed.above == WIDEST
    assert interval_factors(later).above < 1.5


def test_outcomes_as_expected_never_make_a_point() -> None:
    factors = interval_factors(history(lambda _: EXPECTED, 500))
    assert NARROWEST <= factors.below < 1.0
    assert NARROWEST <= factors.above < 1.0


def test_an_outcome_without_noise_has_no_score() -> None:
    point = PastOutcome(EXPECTED, EXPECTED, EXPECTED, 1.0, 1.0, 2 * EXPECTED)
    assert point.score is None
    assert interval_factors([point] * 5) == IntervalFactors(PSEUDO_WIDTH, PSEUDO_WIDTH)


def test_only_the_newest_measurements_count() -> None:
    old = [after([], 5 * EXPECTED)] * 50
    new = [after([], EXPECTED + 0.1)] * OUTCOMES_USED
    assert interval_factors(old + new) == interval_factors(new)


def test_many_outcomes_of_one_measurement_count_as_one() -> None:
    one = after([], EXPECTED + 3 * END)
    together = [after([], EXPECTED + 3 * END, weight=0.01)] * 100
    found, alone = interval_factors(together), interval_factors([one])
    assert found.above == pytest.approx(alone.above, rel=0.2)
    assert found.below == pytest.approx(alone.below, rel=0.2)


def test_nodes_that_share_a_burst_are_inside_as_often_as_promised() -> None:
    """The loads of 40 nodes rise and fall together by more than each varies by itself."""
    rng, nodes = np.random.default_rng(7), 40
    outcomes: list[PastOutcome] = []
    for _ in range(150):
        common = rng.normal(0.0, 0.95)
        own = rng.normal(0.0, np.sqrt(1 - 0.95**2), nodes)
        promised = after(outcomes, 0.0, weight=1 / nodes)
        outcomes += [
            PastOutcome(promised.expected, promised.low, promised.high, promised.below,
                        promised.above, EXPECTED + common + float(each), 1 / nodes)
            for each in own
        ]  # fmt: skip
    assert inside(outcomes) >= 0.85
