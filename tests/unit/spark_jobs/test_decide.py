"""A plan is made only where it is worth its moves, or where a node has to be left."""

from __future__ import annotations

import numpy as np
import pytest

from ballast.contracts.policy import ThresholdPolicy
from solvers import Budget, Problem, Status, Stop, solve
from solvers.result import make_result
from spark_jobs.solve import decide, why_unchanged


def problem(loads, current, states=("alive", "alive")):
    names = [f"op/{i}" for i in range(len(loads))]
    return Problem(
        node_ids=("a", "b"),
        resources=("cpu",),
        capacity=np.ones((2, 1)),
        node_state=states,
        key_group_ids=tuple(names),
        operator_ids=("op",) * len(loads),
        load=np.array(loads, dtype=float).reshape(-1, 1),
        state_bytes=np.full(len(loads), 10),
        current=np.array(current),
    )


def decided(of, plan, **thresholds):
    result = make_result(of, np.array(plan), method="test", bound=0.0, seconds=0.1)
    return decide(of, result, ThresholdPolicy(**thresholds))


UNEVEN = problem([3, 1, 1, 1], [0, 0, 1, 1])


def test_a_plan_that_is_worth_it_stays():
    assert decided(UNEVEN, [0, 1, 1, 1]).moves == 1


def test_below_good_enough_nothing_is_moved():
    unchanged = decided(UNEVEN, [0, 1, 1, 1], good_enough_pct=40)
    assert (unchanged.status, unchanged.moves) == (Status.UNCHANGED, 0)
    assert "33.33 % of the mean, is good enough (good_enough_pct is 40)" in unchanged.reason
    assert unchanged.assignment.tolist() == UNEVEN.current.tolist()
    assert unchanged.load_distance == unchanged.load_distance_before


def test_a_gain_below_the_least_improvement_moves_nothing():
    unchanged = decided(UNEVEN, [0, 1, 1, 1], min_improvement_pct=34)
    assert unchanged.status is Status.UNCHANGED
    assert "lowers the load distance by 33.33" in unchanged.reason


def test_what_the_solver_leaves_alone_is_unchanged():
    level = problem([1, 1], [0, 1])
    result = solve(level, Budget(), Stop(seconds=1))
    assert why_unchanged(level, result, ThresholdPolicy()) is not None


@pytest.mark.parametrize("state", ["dead", "draining"])
def test_thresholds_do_not_keep_a_key_group_on_a_node_that_goes(state):
    last = problem([1, 0.001], [0, 1], ("alive", state))
    kept = decided(last, [0, 0], good_enough_pct=100, min_improvement_pct=100)
    assert kept.assignment.tolist() == [0, 0]


def test_the_bound_of_the_solver_stays_with_an_unchanged_draft():
    result = make_result(UNEVEN, np.array([0, 1, 1, 1]), method="test", bound=0.0, seconds=0.1)
    assert decide(UNEVEN, result, ThresholdPolicy(good_enough_pct=50)).bound == result.bound
