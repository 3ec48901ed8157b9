"""Blocking-rate weights of an ordered region [MW16-REGIONS, 3-5]."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.weights import UNITS, BlockingHistory, BlockingParams, weights_from
from solvers.weights.blocking_function import RawData, blocking_function, first_blocking
from solvers.weights.connection_clusters import cluster, distances
from solvers.weights.minimax_allocation import minimax_allocation
from tests.unit.solvers.weights.region import FluidRegion, even, follow

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
DELTA = 1e-5


def raw_of(points: dict[int, float]) -> RawData:
    return RawData(dict(points), dict.fromkeys(points, 1.0))


# Blocking-rate functions (5.1)


def test_a_function_passes_through_its_measurements_and_is_linear_between() -> None:
    f = blocking_function(raw_of({200: 0.0, 400: 0.2}), UNITS, DELTA)
    assert f[0] == 0
    assert f[300] == pytest.approx(0.1 + 300 * DELTA)
    assert f[400] == pytest.approx(0.2 + 400 * DELTA)


def test_beyond_the_last_measurement_the_last_slope_goes_on() -> None:
    f = blocking_function(raw_of({200: 0.0, 400: 0.2}), UNITS, DELTA)
    assert f[600] == pytest.approx(0.4 + 600 * DELTA)


def test_a_contradiction_is_levelled_by_monotone_regression() -> None:
    f = blocking_function(raw_of({300: 0.4, 500: 0.2}), UNITS, DELTA)
    assert f[300] - 300 * DELTA == pytest.approx(0.3)
    assert f[500] - 500 * DELTA == pytest.approx(0.3)


def test_what_was_measured_often_counts_more() -> None:
    often = RawData({300: 0.4, 500: 0.2}, {300: 9.0, 500: 1.0})
    assert blocking_function(often, UNITS, DELTA)[400] - 400 * DELTA == pytest.approx(0.38)


@given(
    st.dictionaries(st.integers(1, UNITS), st.floats(0, 1), max_size=12),
    st.floats(1e-7, 1e-4),
)
@QUICK
def test_every_function_starts_at_zero_and_rises(points: dict[int, float], delta: float) -> None:
    f = blocking_function(raw_of(points), UNITS, delta)
    assert len(f) == UNITS + 1
    assert f[0] == 0
    assert (np.diff(f) > 0).all()


def test_first_blocking_is_the_knee() -> None:
    f = blocking_function(raw_of({500: 0.0, 510: 0.3}), UNITS, DELTA)
    assert first_blocking(f, DELTA) == 501
    assert first_blocking(blocking_function(RawData(), UNITS, DELTA), DELTA) == UNITS


# Minimax allocation (5.2)


def brute_force(functions: np.ndarray, low: Any, high: Any, units: int) -> float:
    ranges = [range(a, b + 1) for a, b in zip(low, high, strict=True)]
    return min(
        max(functions[j, w] for j, w in enumerate(weights))
        for weights in itertools.product(*ranges)
        if sum(weights) == units
    )


@st.composite
def allocations(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    n, units = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    steps = st.lists(st.integers(0, 5), min_size=units, max_size=units)
    functions = np.array([[0, *np.cumsum(draw(steps))] for _ in range(n)], dtype=float)
    low = np.array([draw(st.integers(0, 2)) for _ in range(n)])
    high = np.minimum(units, low + np.array([draw(st.integers(0, units)) for _ in range(n)]))
    low = np.minimum(low, high)
    return functions, low, high, units


@given(allocations())
@settings(QUICK, max_examples=300)
def test_the_greedy_is_as_good_as_brute_force(case: Any) -> None:
    functions, low, high, units = case
    if low.sum() > units or high.sum() < units:
        with pytest.raises(InvalidInput, match="units"):
            minimax_allocation(functions, low, high, units)
        return
    weights = minimax_allocation(functions, low, high, units)
    assert weights.sum() == units
    assert (weights >= low).all()
    assert (weights <= high).all()
    reached = max(functions[j, w] for j, w in enumerate(weights))
    assert reached == brute_force(functions, low, high, units)


def test_equal_functions_share_evenly() -> None:
    f = blocking_function(RawData(), UNITS, DELTA)
    weights = minimax_allocation(
        np.array([f] * 7), np.zeros(7, dtype=int), np.full(7, UNITS), UNITS
    )
    assert weights.max() - weights.min() <= 1


def test_a_function_that_falls_is_refused() -> None:
    with pytest.raises(InvalidInput, match="falls"):
        minimax_allocation(np.array([[0.0, 2.0, 1.0]]), np.zeros(1), np.full(1, 2), 2)


# Clustering (5.3)


def test_the_distance_is_the_papers() -> None:
    f = np.array(
        [
            blocking_function(raw_of({100: 0.0, 101: 0.1}), UNITS, DELTA),
            blocking_function(raw_of({400: 0.0, 401: 0.3}), UNITS, DELTA),
        ]
    )
    alpha = math.log(UNITS) / abs(math.log(UNITS * DELTA))
    expected = max(
        abs(math.log(101 / 401)),
        alpha * abs(math.log(f[0, 101] / f[1, 401])),
        alpha * abs(math.log(f[0, UNITS] / f[1, UNITS])),
    )
    assert distances(f, DELTA)[0, 1] == pytest.approx(expected)
    assert distances(f, DELTA)[0, 0] == 0


def test_three_classes_of_64_connections_are_not_mixed() -> None:
    """[MW16-REGIONS, 6.6]: clusters may be more than the classes, but never hold two of them."""
    rng = np.random.default_rng(3)
    classes = [0] * 20 + [1] * 20 + [2] * 24
    knee = {0: 1, 1: 8, 2: 40}
    functions = np.array(
        [
            blocking_function(
                raw_of({knee[c]: 0.0, knee[c] + 1: 0.2 * rng.uniform(0.9, 1.1)}), UNITS, DELTA
            )
            for c in classes
        ]
    )
    labels = cluster(functions, DELTA, math.log(2))
    for label in np.unique(labels):
        assert len({classes[j] for j in np.flatnonzero(labels == label)}) == 1
    assert len(np.unique(labels)) < 32


def test_connections_are_clustered_from_32_on() -> None:
    for n, at_most in ((31, 31), (32, 1)):
        history = BlockingHistory(
            tuple(f"c{j}" for j in range(n)), even(n)[None], np.full((1, n), 0.1)
        )
        found = len(np.unique(weights_from(history).clusters))
        assert found == at_most


# The whole function, in a region where the slowest worker gates all


def test_equal_workers_stay_nearly_even() -> None:
    """[MW16-REGIONS, 6.2]: a high blocking rate is unavoidable, and the split stays sustainable."""
    region = FluidRegion([1.0, 1.0, 1.0])
    throughputs, _ = follow(region, 300, BlockingParams())
    assert throughputs[100:].mean() > 0.85 * 3
    assert region.weights.min() > 200


def test_a_worker_100_times_slower_gets_next_to_nothing() -> None:
    region = FluidRegion([0.01, 1.0, 1.0])
    throughputs, _ = follow(region, 200, BlockingParams(decay=0.0))
    assert throughputs[0] == pytest.approx(0.03, rel=0.01)
    assert throughputs[100:].mean() > 0.75 * 2.01
    assert region.weights[0] < 15


def test_with_decay_a_worker_that_recovers_is_found_again() -> None:
    """LB-adaptive against LB-static [MW16-REGIONS, 5.4 and 6.1]."""
    finals = {}
    for decay in (0.0, 0.1):
        region = FluidRegion([0.01, 1.0, 1.0])
        _, result = follow(region, 100, BlockingParams(decay=decay))
        region.capacity[0] = 1.0
        throughputs, _ = follow(region, 400, BlockingParams(decay=decay), result.learned)
        finals[decay] = throughputs[-100:].mean()
    assert finals[0.1] > 2.4
    assert finals[0.1] > finals[0.0]


def test_a_zero_while_another_blocks_says_little() -> None:
    """Drafting: the draftee's zero changes little of what was measured at that weight before."""
    names = ("a", "b")
    weights = np.array([[500, 500], [500, 500]])
    drafting = weights_from(BlockingHistory(names, weights, np.array([[0.4, 0.0], [0.0, 0.4]])))
    alone = weights_from(BlockingHistory(names, weights, np.array([[0.4, 0.0], [0.0, 0.0]])))
    assert drafting.functions[0, 500] > 0.35
    assert alone.functions[0, 500] < 0.25


def test_three_classes_of_64_workers_are_told_apart() -> None:
    """[MW16-REGIONS, 6.6]: 20 at 100x, 20 at 5x, 24 at 1x; several times the rate of round
    robin."""
    region = FluidRegion([0.01] * 20 + [0.2] * 20 + [1.0] * 24)
    round_robin = region.throughput()
    throughputs, _ = follow(region, 200, BlockingParams())
    slow, middle, fast = (region.weights[a:b].mean() for a, b in ((0, 20), (20, 40), (40, 64)))
    assert slow < middle < fast
    assert throughputs[-50:].mean() > 4 * round_robin


def test_what_was_learned_and_the_whole_history_give_the_same_weights() -> None:
    rng = np.random.default_rng(1)
    weights = np.array([rng.multinomial(UNITS, np.full(4, 0.25)) for _ in range(30)])
    blocking = np.where(rng.random((30, 4)) < 0.3, rng.random((30, 4)), np.nan)
    names = ("a", "b", "c", "d")
    whole = weights_from(BlockingHistory(names, weights, blocking))
    first = weights_from(BlockingHistory(names, weights[:20], blocking[:20]))
    rest = weights_from(BlockingHistory(names, weights[20:], blocking[20:]), learned=first.learned)
    assert np.array_equal(whole.units, rest.units)


def test_no_weight_changes_by_more_than_the_bound() -> None:
    history = BlockingHistory(("a", "b"), np.array([[500, 500]]), np.array([[0.9, 0.0]]))
    result = weights_from(history, BlockingParams(max_change=40))
    assert result.units.tolist() == [460, 540]


@given(
    n=st.integers(1, 6),
    rounds=st.integers(1, 8),
    seed=st.integers(0, 10**6),
    max_change=st.none() | st.integers(1, 400),
)
@QUICK
def test_weights_always_add_up_and_keep_their_bounds(
    n: int, rounds: int, seed: int, max_change: int | None
) -> None:
    rng = np.random.default_rng(seed)
    weights = np.array([rng.multinomial(UNITS, rng.dirichlet(np.ones(n))) for _ in range(rounds)])
    blocking = np.where(rng.random((rounds, n)) < 0.5, rng.random((rounds, n)), np.nan)
    alive = rng.random(n) < 0.8
    alive[int(rng.integers(n))] = True
    history = BlockingHistory(tuple(map(str, range(n))), weights, blocking, alive)
    result = weights_from(history, BlockingParams(max_change=max_change))
    assert result.units.sum() == UNITS
    assert (result.units >= 0).all()
    assert (result.units[~alive] == 0).all()
    if max_change is not None and (weights[-1][~alive] == 0).all():
        assert np.abs(result.units - weights[-1]).max() <= max_change


# Bad input


def test_weights_that_do_not_sum_are_refused() -> None:
    with pytest.raises(InvalidInput, match="add up to 999"):
        BlockingHistory(("a", "b"), np.array([[500, 499]]), np.zeros((1, 2)))


def test_a_connection_without_a_measurement_keeps_its_weight_and_is_named() -> None:
    history = BlockingHistory(
        ("a", "b", "c"), np.array([[400, 300, 300]]), np.array([[0.5, 0.1, np.nan]])
    )
    result = weights_from(history)
    assert result.units[2] == 300
    assert "never measured" in result.reason
    assert "c" in result.reason


def test_without_any_measurement_nothing_changes() -> None:
    history = BlockingHistory(("a", "b"), np.array([[700, 300]]), np.full((1, 2), np.nan))
    assert weights_from(history).units.tolist() == [700, 300]


def test_a_dead_connection_gets_nothing_even_against_the_bound_on_change() -> None:
    history = BlockingHistory(
        ("a", "b"), np.array([[500, 500]]), np.zeros((1, 2)), np.array([True, False])
    )
    result = weights_from(history, BlockingParams(max_change=10))
    assert result.units.tolist() == [1000, 0]
    assert "dead" in result.reason


@pytest.mark.parametrize(
    "broken",
    [
        {"connection_ids": ()},
        {"connection_ids": ("a", "a")},
        {"blocking": [[-0.1, 0.0]]},
        {"blocking": [[np.inf, 0.0]]},
        {"blocking": [[0.0]]},
        {"alive": [False, False]},
        {"weights": [[1200, -200]]},
    ],
)
def test_a_history_that_cannot_be_is_refused(broken: dict[str, Any]) -> None:
    good = {
        "connection_ids": ("a", "b"),
        "weights": [[500, 500]],
        "blocking": [[0.0, 0.0]],
    }
    with pytest.raises(InvalidInput):
        BlockingHistory(**{**good, **broken})


def test_params_that_cannot_be_are_refused() -> None:
    for broken in (
        {"smoothing": 0.0},
        {"decay": 1.0},
        {"delta": 0.1},
        {"max_change": 0},
        {"cut": 0.0},
    ):
        with pytest.raises(InvalidInput):
            BlockingParams(**broken)  # type: ignore[arg-type]
