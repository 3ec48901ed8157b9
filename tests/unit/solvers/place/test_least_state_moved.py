"""The least state moved for a level load."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.place import clb, elb, least_state_moved, mclb, over_windows
from solvers.place.excess_moves import move_excess
from solvers.place.imbalance import state_moved
from solvers.verify.assignment import verify
from tests.unit.solvers.instances import make, names

STOP = Stop(steps=1)


def drawn(seed: int, groups: int = 60, nodes: int = 5) -> Problem:
    rng = np.random.default_rng(seed)
    load = rng.lognormal(0, 0.6, groups)
    return make(
        load.tolist(),
        rng.integers(0, nodes, groups).tolist(),
        nodes=nodes,
        state_bytes=rng.integers(1, 1000, groups),
    )


def test_a_load_that_is_level_enough_stays_where_it_is() -> None:
    problem = make([1.0, 1.02], [0, 1])
    assert least_state_moved(problem, 2.0, Budget(), STOP).moves == 0
    assert least_state_moved(make([0.0, 0.0], [0, 0], nodes=2), 1.0, Budget(), STOP).moves == 0


@given(st.integers(0, 10**6), st.sampled_from([1.0, 5.0, 20.0]))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_more_tolerance_never_needs_more_and_every_plan_keeps_its_promises(
    seed: int, within: float
) -> None:
    problem = drawn(seed)
    tight = least_state_moved(problem, 0.5, Budget(), STOP)
    plan = least_state_moved(problem, within, Budget(), STOP)
    assert plan.load_distance <= max(within, tight.load_distance) + 1e-5
    assert verify(problem, Budget(), names(problem, plan.assignment), plan.to_dict()) == []


def test_the_budget_is_kept_even_where_it_is_not_enough() -> None:
    problem = drawn(3)
    plan = least_state_moved(problem, 0.1, Budget(moves=2), STOP)
    assert plan.moves <= 2
    assert plan.load_distance < plan.load_distance_before


def test_it_is_near_the_exact_model_of_autodasp17() -> None:
    """State moved for the balance of MCLB: at most a fifth more than the least."""
    rng = np.random.default_rng(5)
    load, current = rng.integers(5, 30, 9).astype(float), rng.integers(0, 3, 9)
    state = rng.integers(1, 50, 9)
    problem = make(load.tolist(), current.tolist(), nodes=3, state_bytes=state)
    exact = mclb(load, state, current, 3)
    mean = load.sum() / 3
    sums = np.bincount(exact.assignment, weights=load, minlength=3)
    within = 100 * float(np.abs(sums - mean).max()) / mean
    plan = least_state_moved(problem, within, Budget(), STOP)
    assert plan.load_distance <= within + 1e-6
    assert plan.bytes <= 1.2 * exact.state_moved


def test_every_window_can_be_made_level_with_less_state_than_elb_and_clb_move() -> None:
    rng = np.random.default_rng(8)
    series = rng.lognormal(0, 0.3, (80, 1)) * rng.uniform(0.9, 1.1, (80, 3))
    current, state = rng.integers(0, 4, 80), rng.integers(1, 100, 80)
    problem = over_windows(
        make(series.mean(axis=1).tolist(), current.tolist(), nodes=4, state_bytes=state),
        series[:, None, :],
    )
    plan = least_state_moved(problem, 5.0, Budget(), STOP)
    assert plan.load_distance <= 5.0
    assert plan.bytes < state_moved(state, current, clb(series, current, 4))
    mean = series[:, 0].sum() / 4
    one = elb(series[:, 0], current, 4, u=1.2 * mean, v=0.85 * mean, max_instances=4)
    assert plan.bytes < 1.5 * state_moved(state, current, one.assignment)


@pytest.mark.parametrize("within", [-1.0, float("nan"), float("inf")])
def test_a_tolerance_that_cannot_be_is_refused(within: float) -> None:
    with pytest.raises(InvalidInput, match="within"):
        least_state_moved(make([1.0], [0]), within, Budget(), STOP)


def test_peeling_moves_little_and_leaves_what_has_rules_alone() -> None:
    plain = make([0.2] * 10, [0] * 8 + [1] * 2)
    after = move_excess(plain, 1.0, Budget())
    assert after is not None
    assert np.bincount(after).tolist() == [5, 5]
    assert (after != plain.current).sum() == 3
    limited = move_excess(plain, 1.0, Budget(moves=2))
    assert limited is not None
    assert (limited != plain.current).sum() == 2
    assert move_excess(make([1.0, 0.1], [0, 1]), 1.0, Budget()).tolist() == [0, 1]  # type: ignore[union-attr]
    for rules in ({"pinned": np.array([True] * 4)}, {"states": ["alive", "draining"]}):
        assert move_excess(make([0.2] * 4, [0] * 4, nodes=2, **rules), 1.0, Budget()) is None
