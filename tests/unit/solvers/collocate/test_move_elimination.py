"""A joint plan makes no moves whose gain in traffic and load is within the noise."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from solvers.collocate.joint import plan
from solvers.collocate.joint_params import JointParams
from solvers.model.budget import Budget
from solvers.model.stop import Stop
from tests.unit.solvers.collocate.instances import pairs_apart, with_traffic
from tests.unit.solvers.noisy_instances import with_noise

MEASURED = JointParams(max_load_distance=50.0, precision="measured")
EXACT = dataclasses.replace(MEASURED, precision="exact")


def planned(problem, params, budget=None):
    return plan(problem, budget or Budget(), Stop(steps=4), 1, params)


def with_traffic_noise(problem, sd, relative=0.01):
    edges = np.full(len(problem.traffic_rate), sd)
    return with_noise(problem, relative, traffic_error=edges, traffic_period_sd=edges)


def a_heavy_and_a_light_pair():
    """Two pairs of key groups on four nodes; the light one sends a thousandth of the records.

    Their load is very small compared with the four key groups without traffic.
    """
    load = [*[0.001] * 4, *[2.0] * 4]
    return with_traffic(load, [0, 1, 2, 3, 0, 1, 2, 3], [(0, 1, 1000.0), (2, 3, 1.0)])


def test_traffic_within_the_noise_moves_nothing():
    problem = with_traffic_noise(a_heavy_and_a_light_pair(), 50.0)
    exact, few = (planned(problem, params).result for params in (EXACT, MEASURED))
    assert exact.assignment[2] == exact.assignment[3]
    assert few.assignment[0] == few.assignment[1]
    assert few.assignment[2] != few.assignment[3]
    assert 0 < few.moves < exact.moves


def test_traffic_beyond_the_noise_moves_all_the_same():
    problem = with_traffic_noise(a_heavy_and_a_light_pair(), 0.001)
    exact, few = (planned(problem, params).result for params in (EXACT, MEASURED))
    assert few.collocation_factor == pytest.approx(exact.collocation_factor)


def test_traffic_whose_noise_is_not_known_counts_in_full():
    problem = with_noise(a_heavy_and_a_light_pair(), 0.01)
    exact, few = (planned(problem, params).result for params in (EXACT, MEASURED))
    assert few.collocation_factor == pytest.approx(exact.collocation_factor)


@pytest.mark.parametrize("params", [EXACT, MEASURED])
def test_without_noise_the_precision_changes_nothing(params):
    problem = pairs_apart(12, 4)
    one, other = planned(problem, params), planned(problem, JointParams(max_load_distance=50.0))
    assert np.array_equal(one.result.assignment, other.result.assignment)
    assert one.saved_rate == other.saved_rate


def test_moves_that_hold_the_load_bound_stay():
    problem = with_traffic_noise(pairs_apart(12, 4), 1.0, relative=0.3)
    params = dataclasses.replace(MEASURED, max_load_distance=10.0)
    few = planned(problem, params).result
    assert few.load_distance <= 10.0 + 1e-6
    assert few.collocation_factor >= few.collocation_factor_before


def test_key_groups_leave_draining_and_dead_nodes_whatever_the_noise():
    problem = pairs_apart(12, 4)
    problem = dataclasses.replace(problem, node_state=("alive", "alive", "draining", "dead"))
    problem = with_traffic_noise(problem, 1e6, relative=3.0)
    exact, few = (planned(problem, params).result for params in (EXACT, MEASURED))
    assert not np.isin(few.assignment, [3]).any()
    assert (few.assignment == 2).sum() <= (exact.assignment == 2).sum()


def test_a_plan_whose_every_move_is_within_the_noise_is_no_plan():
    problem = with_traffic_noise(a_heavy_and_a_light_pair(), 1e6)
    few = planned(problem, MEASURED)
    assert (few.result.moves, few.winner) == (0, "nothing")
