"""A gain counts if it is beyond the noise of the loads and of the traffic."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ballast.contracts.policy import TrafficPolicy
from solvers.model.budget import Budget
from solvers.model.result import SolverRun, make_result
from solvers.model.stop import Stop
from solvers.planner.gain import load_evidence, traffic_evidence, without_unproven_moves
from solvers.rebalance.solve import solve
from tests.unit.solvers.instances import make
from tests.unit.solvers.noisy_instances import with_noise


def result_of(problem, plan):
    return make_result(problem, np.array(plan), SolverRun(method="test", bound=0.0, seconds=0.1))


def test_nothing_is_said_of_loads_whose_noise_is_not_known():
    problem = make([3, 1, 1, 1], [0, 0, 1, 1])
    assert load_evidence(problem, result_of(problem, [0, 1, 1, 1]), 0.95) is None
    assert traffic_evidence(problem, np.array([0, 1, 1, 1]), TrafficPolicy(), 0.95) is None


@pytest.mark.parametrize(("relative", "is_real"), [(0.01, True), (0.3, False)])
def test_the_same_gain_is_real_or_not_by_the_noise(relative, is_real):
    problem = with_noise(make([3, 1, 1, 1], [0, 0, 1, 1]), relative)
    evidence = load_evidence(problem, result_of(problem, [0, 1, 1, 1]), 0.95)
    assert evidence.is_real is is_real


def talking(error=0.1, racks=()):
    """Two pairs of key groups, each on two nodes; the first sends ten times more."""
    problem = make(
        np.ones(4),
        [0, 1, 2, 3],
        rack=racks,
        traffic_from=np.array([0, 1]),
        traffic_to=np.array([2, 3]),
        traffic_rate=np.array([10.0, 1.0]),
    )
    return with_noise(problem, traffic_error=np.full(2, error))


def test_traffic_saved_is_compared_with_the_errors_of_its_edges():
    plan = np.array([0, 1, 0, 3])
    saved = traffic_evidence(talking(), plan, TrafficPolicy(), 0.95)
    assert saved.gain_pct == pytest.approx(100 * 10 / 11)
    assert saved.is_real
    lost_in_noise = traffic_evidence(talking(error=40.0), plan, TrafficPolicy(), 0.95)
    assert not lost_in_noise.is_real
    assert lost_in_noise.noise_pct > saved.noise_pct
    assert "is within the noise of" in lost_in_noise.text
    assert "more windows it would be beyond the noise" in lost_in_noise.text


def test_traffic_that_is_lost_is_never_a_real_gain():
    problem = dataclasses.replace(talking(), current=np.array([0, 1, 0, 3]))
    lost = traffic_evidence(problem, np.array([0, 1, 2, 3]), TrafficPolicy(), 0.95)
    assert lost.gain_pct < 0
    assert (lost.is_real, lost.windows_needed) == (False, None)


def test_a_gain_that_no_number_of_windows_would_tell_names_none():
    hardly = traffic_evidence(talking(error=1e9), np.array([0, 1, 0, 3]), TrafficPolicy(), 0.95)
    assert hardly.gain_pct > 0
    assert (hardly.is_real, hardly.windows_needed) == (False, None)
    assert "more windows" not in hardly.text


def test_traffic_within_a_rack_saves_by_its_price():
    prices = TrafficPolicy(within_rack_price=1.0, between_racks_price=4.0)
    problem = talking(racks=("r", "r", "s", "s"))
    nearer = traffic_evidence(problem, np.array([0, 1, 1, 3]), prices, 0.95)
    assert nearer.gain_pct == pytest.approx(75 * 10 / 11)


def drained(relative, loads=(1.0, 5.3, 1.0, 5.0, 1.0)):
    """Node 2 drains; a balance move from node 0 to node 1 gains a little."""
    problem = make(loads, [0, 0, 1, 1, 2], states=["alive", "alive", "draining"])
    return with_noise(problem, relative)


def test_a_drain_takes_no_moves_by_choice_whose_gain_is_within_the_noise():
    problem = drained(0.3)
    plan = result_of(problem, [1, 0, 0, 1, 0])
    kept = without_unproven_moves(problem, plan, 0.95)
    assert kept.assignment.tolist() == [0, 0, 1, 1, 0]
    assert kept.reason.startswith("2 moves for balance are left out of the plan that was found")
    assert kept.method == plan.method


def test_a_drain_takes_moves_by_choice_whose_gain_is_real():
    problem = drained(0.001, (1.0, 6.0, 1.0, 3.0, 1.0))
    plan = result_of(problem, [1, 0, 1, 1, 1])
    assert without_unproven_moves(problem, plan, 0.95) is plan


def test_moves_that_make_room_for_a_drain_stay():
    # Without the move of the first key group the drain would raise the load distance.
    states = ["alive", "alive", "alive", "draining"]
    problem = with_noise(make([2.0, 4.0, 6.0, 6.0, 3.0], [0, 0, 1, 2, 3], states=states), 3.0)
    plan = result_of(problem, [1, 0, 1, 2, 0])
    assert without_unproven_moves(problem, plan, 0.95) is plan


def test_forced_moves_stay_whatever_the_noise():
    problem = make([1.0, 5.0, 1.0, 5.2, 1.0], [0, 0, 1, 1, 2], states=["alive", "alive", "dead"])
    problem = with_noise(problem, 3.0)
    plan = result_of(problem, [1, 0, 0, 1, 0])
    kept = without_unproven_moves(problem, plan, 0.95)
    assert (kept.moves, kept.forced_moves) == (0, 1)
    assert kept.assignment[4] == 0


def test_without_noise_every_move_stays():
    problem = dataclasses.replace(drained(0.3), noise=None)
    plan = solve(problem, Budget(), Stop(steps=10))
    assert without_unproven_moves(problem, plan, 0.95) is plan
