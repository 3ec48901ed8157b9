"""Weights from the workers' true rates (ADR 38)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.weights import UNITS, ServiceHistory, ServiceParams, weights_from_service
from solvers.weights.service_rate_weights import newest_rate
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


def test_records_that_come_back_fast_in_a_round_that_began_slow_are_believed() -> None:
    """The round is compared with all slow rounds together; one of them alone has too few
    records."""
    slow = [0, 1] * 5, [1.0] * 10
    assert rate([*slow[0], 5], [*slow[1], 0.6]) == pytest.approx(5 / 0.6)


def test_one_record_makes_no_worker_faster_however_fast_it_came_back() -> None:
    assert rate([1, 1, 1], [1.0, 1.0, 1e-4]) == pytest.approx(3 / 2.0001)
    # It had been processed for 300 s.
    assert rate([0] * 299 + [1], [1.0] * 300) == pytest.approx(1 / 300)


def test_a_change_before_the_last_one_does_not_hide_it() -> None:
    assert rate([100, 100, 1, 1, 1, 50], [1.0] * 6) == 50


def test_counts_that_differ_by_chance_are_taken_together() -> None:
    counts = np.random.default_rng(5).poisson(50, (2000, 8))
    found = np.array([rate(row.tolist(), [1.0] * 8) for row in counts])
    assert (np.isclose(found, counts.mean(axis=1))).mean() > 0.95


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
    """A unit is 0.1 %: a worker with 0.03 % of the capacity would limit the others at one unit."""
    rates = [0.5] * 32 + [50.0] * 32
    found = weights_from_service(history([rates], [[1.0] * 64]))
    assert found.units[:32].sum() == 0


@given(
    st.lists(st.integers(1, 200), min_size=1, max_size=4),
    st.integers(2, 8),
)
@QUICK
def test_no_other_whole_weights_do_more(rates: list[int], units: int) -> None:
    """Compared with exhaustive search: the worker slowest for its share limits the throughput."""

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


def of_slow_worker(record_s: int, idle: int) -> tuple[np.ndarray, np.ndarray]:
    """Two fast workers, and one that took 1 s for each record and then had none."""
    done = np.full((record_s + idle, 3), 500.0)
    busy_s = np.ones((record_s + idle, 3))
    done[:, 2] = 0.0
    done[record_s - 1, 2] = 1.0
    busy_s[record_s:, 2] = 0.0
    return done, busy_s


@pytest.mark.parametrize(("record_s", "patience"), [(2, 2), (5, 5), (10, 10), (30, 10)])
def test_a_connection_of_no_weight_is_tried_again_once_idle_for_as_long_as_a_record_takes(
    record_s: int, patience: int
) -> None:
    for idle, is_tried in ((patience - 1, False), (patience, True)):
        found = weights_from_service(history(*of_slow_worker(record_s, idle)))
        assert found.probed.tolist() == [False, False, is_tried]
        assert found.units[2] == int(is_tried)
        assert found.units.sum() == UNITS


def test_a_probe_that_is_in_force_for_longer_is_waited_for_longer() -> None:
    """A record a round for three rounds, of 2 s each."""
    params = ServiceParams(in_force_rounds=3)
    for idle, is_tried in ((5, False), (6, True)):
        found = weights_from_service(history(*of_slow_worker(2, idle)), params)
        assert found.probed[2] == is_tried


def test_a_connection_of_no_weight_is_never_tried_again_where_probing_is_off() -> None:
    given_history = history(*of_slow_worker(2, 40))
    assert weights_from_service(given_history, ServiceParams(probe_rounds=0)).units[2] == 0


def test_a_connection_of_no_weight_that_was_never_measured_is_tried_after_ten_rounds() -> None:
    for rounds, is_tried in ((9, False), (10, True)):
        done, busy_s = np.full((rounds, 2), 100.0), np.ones((rounds, 2))
        done[:, 1], busy_s[:, 1] = 0.0, 0.0
        found = weights_from_service(history(done, busy_s, weights=[1000, 0]))
        assert found.probed.tolist() == [False, is_tried]


@pytest.mark.parametrize(
    ("records", "units"), [(5000, 1), (1000, 1), (600, 1), (500, 2), (300, 3), (20, 10)]
)
def test_a_probe_has_the_units_of_a_record_and_a_hundredth_of_all_at_most(
    records: int, units: int
) -> None:
    done, busy_s = of_slow_worker(record_s=100, idle=10)
    done[:, :2] = records / 2
    found = weights_from_service(history(done, busy_s))
    assert found.probed[2]
    assert found.units[2] == units
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
    for broken in (
        {"change": 0.0}, {"enough": 0.0}, {"probe_rounds": -1}, {"in_force_rounds": 0.0},
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            ServiceParams(**broken)  # type: ignore[arg-type]
