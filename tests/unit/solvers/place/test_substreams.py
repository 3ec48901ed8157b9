"""ELB, CLB and the exact model of [AUTODASP17]."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.stop import Stop
from solvers.place import clb, elb, mclb, over_windows, pareto_front
from solvers.place.imbalance import instance_loads, spread, state_moved, variance
from solvers.rebalance.solve import solve
from tests.unit.solvers.instances import make

QUICK = settings(max_examples=40, deadline=None, derandomize=True)


def loads_of(load: Any, placement: Any) -> np.ndarray:
    series = np.array(load, dtype=float)[:, None]
    return instance_loads(series, placement.assignment, placement.instances)[:, 0]


# ELB


def test_elb_takes_as_many_instances_as_the_load_needs() -> None:
    """pi = ceil(2w / (u + v)): a load of 10 and instances of 2 to 3 give four."""
    load = [0.25] * 40
    placement = elb(load, [0] * 40, 1, u=3.0, v=2.0)
    assert placement.kept == (0, 1, 2, 3)
    assert all(2.0 <= x <= 3.0 for x in loads_of(load, placement))


def test_elb_keeps_substreams_that_are_larger_than_half_the_band() -> None:
    """As printed: theta is at most (u - v) / 2, so hot substreams stay where they are."""
    placement = elb([1.0] * 10, [0] * 10, 1, u=3.0, v=2.0)
    assert placement.assignment.tolist() == [0] * 10


def test_elb_removes_the_least_loaded_instances_and_keeps_nothing_there() -> None:
    load = [1.0] * 6
    placement = elb(load, [0, 0, 0, 1, 1, 2], 3, u=4.0, v=2.0)
    assert placement.kept == (0, 1)
    assert loads_of(load, placement).tolist() == [3, 3, 0]
    assert placement.assignment[:5].tolist() == [0, 0, 0, 1, 1]


def test_elb_moves_only_what_is_below_theta() -> None:
    """theta = min(l_j - average, (u - v) / 2): the substream of 5 is too large to be moved."""
    load = [5.0, 1.0, 1.0, 1.0, 2.0]
    placement = elb(load, [0, 0, 0, 0, 1], 2, u=6.0, v=4.0)
    assert placement.assignment[0] == 0
    theta = min(8.0 - 5.0, 1.0)
    moved = [k for k in range(5) if placement.assignment[k] != [0, 0, 0, 0, 1][k]]
    assert all(load[k] < theta for k in moved)


def test_elb_leaves_a_level_assignment_alone() -> None:
    placement = elb([2.0, 1.0, 2.0, 1.0], [0, 0, 1, 1], 2, u=4.0, v=2.0)
    assert placement.assignment.tolist() == [0, 0, 1, 1]


@given(st.integers(0, 10**6))
@QUICK
def test_elb_uses_exactly_the_instances_that_it_keeps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, n = int(rng.integers(1, 60)), int(rng.integers(1, 8))
    load, current = rng.lognormal(0, 0.8, p), rng.integers(0, n, p)
    placement = elb(load, current, n, u=8.0, v=4.0)
    assert set(placement.assignment.tolist()) <= set(placement.kept)
    assert len(placement.kept) == max(1, int(np.ceil(2 * load.sum() / 12 - 1e-9)))


def test_elb_brings_many_small_substreams_into_the_band() -> None:
    rng = np.random.default_rng(2)
    load, current = rng.uniform(0.01, 0.1, 400), rng.integers(0, 3, 400)
    placement = elb(load, current, 3, u=1.2, v=0.8)
    loads = loads_of(load, placement)[list(placement.kept)]
    assert loads.min() > 0.8
    assert loads.max() < 1.2


def test_elb_balances_one_window_and_bounds_that_do_not_cross() -> None:
    with pytest.raises(InvalidInput, match="one window"):
        elb(np.ones((3, 2)), [0, 0, 0], 1, u=2, v=1)
    with pytest.raises(InvalidInput, match="cross"):
        elb([1.0], [0], 1, u=1, v=2)


def test_elb_of_no_load_keeps_one_instance() -> None:
    assert elb([0.0, 0.0], [0, 1], 2, u=2, v=1).kept == (0,)


# CLB


def brute_force_variance(x: np.ndarray, n: int) -> float:
    return min(
        variance(x, np.array(plan), n) for plan in itertools.product(range(n), repeat=len(x))
    )


def test_clb_keeps_substreams_apart_that_rise_together() -> None:
    up, down = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]
    assignment = clb([up, up, down, down], [0, 0, 1, 1], 2)
    assert assignment[0] != assignment[1]
    assert assignment[2] != assignment[3]


@given(st.integers(0, 10**6))
@QUICK
def test_clb_is_never_worse_than_the_start_and_near_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, current = rng.lognormal(0, 0.6, (6, 4)), rng.integers(0, 2, 6)
    found = variance(x, clb(x, current, 2), 2)
    assert found <= variance(x, current, 2) + 1e-9
    assert found <= 2.0 * brute_force_variance(x, 2) + 1e-9 + 0.05 * variance(x, current, 2)


@given(st.integers(0, 10**6), st.integers(0, 200))
@QUICK
def test_clb_keeps_a_limit_on_state_moved(seed: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    x, current = rng.lognormal(0, 0.8, (20, 5)), rng.integers(0, 4, 20)
    state = rng.integers(1, 50, 20)
    after = clb(x, current, 4, state=state, max_state_moved=limit)
    assert state_moved(state, current, after) <= limit


def test_the_identity_behind_clb_holds() -> None:
    """n x sum_t var(L_t) = sum_i |N_i|^2 - const, so moves can be judged by vectors only."""
    rng = np.random.default_rng(4)
    x = rng.random((9, 5))
    a, b = rng.integers(0, 3, 9), rng.integers(0, 3, 9)

    def square(plan: np.ndarray) -> float:
        return float((instance_loads(x, plan, 3) ** 2).sum())

    difference = 3 * (variance(x, a, 3) - variance(x, b, 3))
    assert difference == pytest.approx(square(a) - square(b))


# The exact model


def brute_force_front(x: np.ndarray, state: Any, current: Any, n: int) -> list[tuple[float, int]]:
    points = {
        (round(spread(x, np.array(plan), n), 9), state_moved(state, current, np.array(plan)))
        for plan in itertools.product(range(n), repeat=len(x))
    }
    return sorted(
        p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)
    )


@given(st.integers(0, 10**6))
@settings(QUICK, max_examples=8)
def test_the_front_is_that_of_exhaustive_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 20, (5, 2)).astype(float)
    state, current = rng.integers(1, 9, 5), rng.integers(0, 2, 5)
    front = pareto_front(x, state, current, 2)
    found = sorted((round(p.imbalance, 9), p.state_moved) for p in front)
    assert found == brute_force_front(x, state, current, 2)


def test_the_front_goes_from_moving_nothing_to_the_best_balance() -> None:
    front = pareto_front([4.0, 3.0, 2.0, 1.0], [1, 1, 1, 1], [0, 0, 0, 0], 2)
    assert [p.state_moved for p in front] == [0, 1, 2]
    assert [p.imbalance for p in front] == [10.0, 2.0, 0.0]


def test_within_a_limit_the_exact_model_beats_elb_and_clb() -> None:
    rng = np.random.default_rng(9)
    load, current = rng.integers(1, 30, 9).astype(float), rng.integers(0, 3, 9)
    state = rng.integers(1, 9, 9)
    for other in (
        elb(load, current, 3, u=load.sum() / 2.5, v=load.sum() / 3.5).assignment,
        clb(load, current, 3),
    ):
        paid = state_moved(state, current, other)
        exact = mclb(load, state, current, 3, max_state_moved=paid)
        assert exact.state_moved <= paid
        assert exact.imbalance <= spread(load[:, None], other, 3) + 1e-9


def test_state_that_is_not_whole_bytes_is_refused() -> None:
    with pytest.raises(InvalidInput, match="whole bytes"):
        mclb([1.0], [0.5], [0], 1)


# Robust over windows


def test_balancing_every_window_is_a_problem_with_a_resource_for_each() -> None:
    """On average both plans are level; in each window only one of them is."""
    up, down = np.array([1.0, 3.0]), np.array([3.0, 1.0])
    series = np.array([up, up, down, down])[:, None, :]
    problem = make(series.mean(axis=2), [0, 0, 1, 1])
    on_average = solve(problem, Budget(), Stop(), method="milp")
    assert on_average.load_distance == 0
    assert on_average.moves == 0
    in_windows = solve(over_windows(problem, series), Budget(), Stop(), method="milp")
    assert in_windows.load_distance == pytest.approx(0, abs=1e-6)
    assert in_windows.moves == 2


def test_a_window_without_load_is_left_out() -> None:
    problem = make([1.0, 1.0], [0, 1])
    assert over_windows(problem, np.zeros((2, 1, 3))).n_resources == 1
    with pytest.raises(InvalidInput, match="windows"):
        over_windows(problem, np.zeros((2, 3)))


# Bad input


@pytest.mark.parametrize(
    ("load", "current", "instances", "message"),
    [
        ([1.0, -1.0], [0, 0], 1, ">= 0"),
        ([1.0, np.nan], [0, 0], 1, ">= 0"),
        ([1.0], [0], 0, "no instance"),
        ([1.0], [1], 1, "does not exist"),
        ([1.0, 1.0], [0], 1, "current has 1"),
    ],
)
def test_input_that_cannot_be_is_refused(
    load: Any, current: Any, instances: int, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        clb(load, current, instances)
    with pytest.raises(InvalidInput, match=message):
        elb(load, current, instances, u=2, v=1)
