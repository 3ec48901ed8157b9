"""The bound is never above the optimum, and it is tight if counting decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solvers.model.budget import Budget
from solvers.rebalance.bound import counting_bound
from tests.unit.solvers.instances import exhaustive_optimum, make


def _random_instance(rng: np.random.Generator) -> tuple[Any, Budget]:
    nodes, groups, resources = rng.integers(2, 4), rng.integers(2, 8), rng.integers(1, 3)
    shape = (groups, resources)
    loads = (
        rng.integers(0, 13, shape).astype(float),
        rng.lognormal(0, 0.8, shape),
        rng.uniform(0.9, 1.1, shape),
    )
    states = rng.choice(["alive", "alive", "alive", "draining", "dead"], nodes).tolist()
    states[int(rng.integers(nodes))] = "alive"
    problem = make(
        loads[int(rng.integers(3))],
        rng.integers(0, nodes, groups),
        states=states,
        capacity=rng.choice([1.0, 2.0], nodes)[:, None],
        state_bytes=rng.integers(0, 50, groups),
        pinned=rng.random(groups) < 0.1,
        weight=rng.choice([0.5, 1.0, 2.0], resources),
        pause_c0_s=0.5,
        pause_s_per_byte=0.1,
    )
    budget = Budget(
        moves=None if rng.random() < 0.3 else int(rng.integers(0, 5)),
        bytes=None if rng.random() < 0.6 else int(rng.integers(0, 120)),
        pause_s=None if rng.random() < 0.7 else float(rng.uniform(0, 12)),
    )
    return problem, budget


def test_never_above_the_optimum_and_often_equal_to_it() -> None:
    rng = np.random.default_rng(11)
    solved = tight = 0
    for _ in range(400):
        problem, budget = _random_instance(rng)
        optimum = exhaustive_optimum(problem, budget)
        if optimum is None:
            continue
        bound = counting_bound(problem, budget)
        assert bound <= optimum + 1e-9
        solved += 1
        tight += bound >= optimum - 1e-6
    assert solved > 200
    assert tight > solved // 2


def test_a_node_that_no_single_key_group_can_mend_takes_two_events() -> None:
    """Four equal nodes of two, one key group of 1.5: a swap takes two moves, and there is one."""
    problem = make([1.5, 1, 1, 1, 1, 1, 0.5, 1], [0, 0, 1, 1, 2, 2, 3, 3])
    assert counting_bound(problem, Budget(moves=1)) > 20
    assert counting_bound(problem, Budget(moves=2)) == pytest.approx(0, abs=1e-6)


def test_whole_numbers_cannot_meet_a_fraction() -> None:
    assert counting_bound(make([1, 1, 1], [0, 0, 1]), Budget()) == pytest.approx(100 / 3)


def test_whole_numbers_with_a_common_divisor_cannot_meet_a_fraction_of_it() -> None:
    assert counting_bound(make([3, 3, 3], [0, 0, 1]), Budget()) == pytest.approx(100 / 3)


def test_bytes_bound_what_moves_would_not() -> None:
    problem = make([4, 4], [0, 0], nodes=2, state_bytes=np.array([100, 100]))
    assert counting_bound(problem, Budget(bytes=100)) == pytest.approx(0, abs=1e-6)
    assert counting_bound(problem, Budget(bytes=99)) == pytest.approx(100)


def test_caps_have_no_part_in_it() -> None:
    problem = make([[1, 9], [1, 1]], [0, 0], nodes=2, balanced=np.array([True, False]))
    assert counting_bound(problem, Budget()) == pytest.approx(0, abs=1e-6)
