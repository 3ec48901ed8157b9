"""Weights from the workers' true rates (ADR 0038)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.weights import UNITS, ServiceHistory, ServiceParams, weights_from_service
from solvers.weights.service import newest_rate
from tests.unit.solvers.weights.region import even

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
PARAMS = ServiceParams()


def history(done: Any, busy_s: Any, weights: Any = None, alive: Any = None) -> ServiceHistory:
    n = np.shape(done)[1]
    return ServiceHistory(
        tuple(f"c{j}" for j in range(n)),
        even(n) if weights is None else np.array(weights),
        np.array(done),
        np.array(busy_s),
        np.ones(n, dtype=bool) if alive is None else np.array(alive),
    )


def rate(done: list[float], busy_s: list[float]) -> float:
    return newest_rate(np.array(done), np.array(busy_s), PARAMS)


# The rate of one worker


def test_a_rate_is_what_came_back_over_busy_time_also_where_a_worker_is_mostly_idle() -> None:
    assert rate([100, 100], [1.0, 1.0]) == 100
    assert rate([10, 10], [0.1, 0.1]) == pytest.approx(100)


def test_rounds_of_one_rate_are_taken_together() -> None:
    assert rate([1, 0, 1, 0], [1.0, 1.0, 1.0, 1.0]) == 0.5


def test_a_worker_that_recovers_is_believed_after_two_records() -> None:
    assert rate([1, 1, 1, 2], [1.0, 1.0, 1.0, 0.02]) == pytest.approx(100)


def test_a_worker_that_slows_down_is_believed_at_once() -> None:
    assert rate([100, 100, 0], [1.0, 1.0, 1.0]) == 1
    assert rate([100, 100, 0, 0], [1.0, 1.0, 1.0, 1.0]) == 0.5


def test_a_first_record_that_has_not_come_back_bounds_the_rate() -> None:
    assert rate([0, 0], [1.0, 1.0]) == 0.5


def test_without_busy_time_there_is_no_rate() -> None:
    assert np.isnan(rate([0, 0], [0.0, np.nan]))


# The weights


def test_weights_follow_the_rates() -> None:
    found = weights_from_service(history([[65, 35]], [[1.0, 1.0]]))
    assert found.units.tolist() == [650, 350]


def test_a_worker_too_slow_for_a_unit_gets_none() -> None:
    """A unit is 0.1 %: a worker that does 0.03 % of all would hold up the others at one unit."""
    rates = [0.5] * 32 + [50.0] * 32
    found = weights_from_service(history([rates], [[1.0] * 64]))
    assert found.units[:32].sum() == 0


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=4),
    st.integers(2, 8),
)
@QUICK
def test_no_other_whole_weights_do_more(rates: list[int], units: int) -> None:
    """Against brute force: the throughput is what the worker slowest for its share allows."""

    def throughput(weights: Any) -> float:
        return min(r / w for r, w in zip(rates, weights, strict=True) if w > 0)

    n = len(rates)
    start = np.zeros(n, dtype=int)
    start[0] = units
    given_history = ServiceHistory(
        tuple(map(str, range(n))),
        start,
        np.array([rates], dtype=float),
        np.ones((1, n)),
        np.ones(n, dtype=bool),
        units,
    )
    found = weights_from_service(given_history, ServiceParams(probe_rounds=0))
    best = max(
        throughput(weights)
        for weights in itertools.product(range(units + 1), repeat=n)
        if sum(weights) == units
    )
    assert throughput(found.units) == pytest.approx(best)


def test_a_connection_of_no_weight_is_tried_again_after_a_while() -> None:
    first = [[100.0, 100.0, 1.0]], [[1.0, 1.0, 20.0]]
    quiet = [100.0, 100.0, 0.0], [1.0, 1.0, 0.0]
    for rounds, is_tried in ((9, False), (10, True)):
        done = np.vstack([first[0], *([quiet[0]] * rounds)])
        busy_s = np.vstack([first[1], *([quiet[1]] * rounds)])
        found = weights_from_service(history(done, busy_s), ServiceParams(probe_rounds=10))
        assert found.probed.tolist() == [False, False, is_tried]
        assert found.units[2] == int(is_tried)
        assert found.units.sum() == UNITS


def test_a_fast_record_after_slow_ones_is_followed_up_at_once_and_a_slow_one_is_not() -> None:
    for seconds, is_tried in ((0.1, True), (20.0, False)):
        done = [[100.0, 100.0, 1.0], [100.0, 100.0, 0.0], [100.0, 100.0, 1.0]]
        busy_s = [[1.0, 1.0, 20.0], [1.0, 1.0, 0.0], [1.0, 1.0, seconds]]
        found = weights_from_service(history(done, busy_s))
        assert found.probed[2] == is_tried


@given(n=st.integers(1, 6), rounds=st.integers(1, 14), seed=st.integers(0, 10**6))
@QUICK
def test_weights_always_add_up_and_the_dead_get_nothing(n: int, rounds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    busy = np.where(rng.random((rounds, n)) < 0.7, rng.random((rounds, n)), np.nan)
    done = rng.integers(0, 50, (rounds, n))
    alive = rng.random(n) < 0.8
    alive[int(rng.integers(n))] = True
    weights = rng.multinomial(UNITS, np.full(n, 1 / n))
    found = weights_from_service(history(done, busy, weights, alive))
    assert found.units.sum() == UNITS
    assert (found.units >= 0).all()
    assert (found.units[~alive] == 0).all()


def test_a_connection_never_measured_keeps_its_weight_and_is_named() -> None:
    found = weights_from_service(
        history([[50, 100, 0]], [[1.0, 1.0, np.nan]], weights=[400, 300, 300])
    )
    assert found.units[2] == 300
    assert "never measured, so they keep their weight: c2" in found.reason


def test_without_any_measurement_nothing_changes() -> None:
    found = weights_from_service(history([[0, 0]], [[0.0, 0.0]], weights=[700, 300]))
    assert found.units.tolist() == [700, 300]


def test_without_any_measurement_what_the_dead_had_goes_to_the_living() -> None:
    found = weights_from_service(
        history([[0, 0, 0]], [[0.0] * 3], weights=[400, 400, 200], alive=[True, True, False])
    )
    assert found.units.tolist() == [500, 500, 0]
    assert "dead, so they get nothing: c2" in found.reason


@pytest.mark.parametrize(
    "broken",
    [
        {"connection_ids": ()},
        {"weights": [500, 499]},
        {"weights": [1000]},
        {"done": [[1.0]]},
        {"done": [[-1.0, 0.0]]},
        {"busy_s": [[np.inf, 0.0]]},
        {"alive": [False, False]},
    ],
)
def test_a_history_that_cannot_be_is_refused(broken: dict[str, Any]) -> None:
    good = {
        "connection_ids": ("a", "b"),
        "weights": [500, 500],
        "done": [[1.0, 1.0]],
        "busy_s": [[1.0, 1.0]],
        "alive": [True, True],
    }
    with pytest.raises(InvalidInput):
        ServiceHistory(**{**good, **broken})


def test_params_that_cannot_be_are_refused() -> None:
    for broken in ({"change": 0.0}, {"enough": 0.0}, {"probe_rounds": -1}):
        with pytest.raises(InvalidInput):
            ServiceParams(**broken)  # type: ignore[arg-type]
