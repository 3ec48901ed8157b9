"""A plan is made only if it is worth its moves, or if a node has to be left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.model.budget import Budget
from solvers.model.noise import LoadNoise
from solvers.model.problem import Problem
from solvers.model.result import SolverRun, Status, make_result
from solvers.model.stop import Stop
from solvers.planner.decision import evidence_of, reason_unchanged, result_or_unchanged
from solvers.planner.gain import expected_distance
from solvers.rebalance.solve import solve
from tests.support.policies import small_policy


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
    result = make_result(of, np.array(plan), SolverRun(method="test", bound=0.0, seconds=0.1))
    return result_or_unchanged(of, result, small_policy(thresholds=thresholds))


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
    assert reason_unchanged(level, result, small_policy()) is not None


@pytest.mark.parametrize("state", ["dead", "draining"])
def test_thresholds_do_not_keep_a_key_group_on_a_node_that_goes(state):
    last = problem([1, 0.001], [0, 1], ("alive", state))
    kept = decided(last, [0, 0], good_enough_pct=100, min_improvement_pct=100)
    assert kept.assignment.tolist() == [0, 0]


def test_the_bound_of_the_solver_stays_with_an_unchanged_draft():
    result = make_result(
        UNEVEN, np.array([0, 1, 1, 1]), SolverRun(method="test", bound=0.0, seconds=0.1)
    )
    policy = small_policy(thresholds={"good_enough_pct": 50})
    assert result_or_unchanged(UNEVEN, result, policy).bound == result.bound


TALKING = replace(
    problem([1, 1, 1, 1], [0, 0, 1, 1]),
    traffic_from=np.array([0, 1]),
    traffic_to=np.array([2, 3]),
    traffic_rate=np.array([5.0, 5.0]),
)


def jointly(of, plan, prices=None, **thresholds):
    result = make_result(of, np.array(plan), SolverRun(method="joint", bound=0.0, seconds=0.1))
    policy = small_policy(objective={"kind": "joint"}, thresholds=thresholds, traffic=prices or {})
    return result_or_unchanged(of, result, policy)


def test_a_joint_plan_is_worth_it_for_the_traffic_it_saves():
    assert jointly(TALKING, [0, 1, 0, 1]).moves == 2


def test_a_joint_plan_that_saves_too_little_moves_nothing():
    unchanged = jointly(TALKING, [0, 1, 0, 1], min_collocation_gain_pct=100.5)
    assert unchanged.status is Status.UNCHANGED
    assert "brings 100.00 percent more of the traffic within nodes" in unchanged.reason


def test_a_joint_plan_is_worth_it_for_the_load_it_levels():
    far = replace(TALKING, current=np.array([0, 0, 0, 1]))
    assert jointly(far, [0, 1, 0, 1], min_collocation_gain_pct=100).moves == 1
    small_gain = jointly(far, [0, 1, 0, 1], min_improvement_pct=60, min_collocation_gain_pct=60)
    assert small_gain.status is Status.UNCHANGED


def test_a_joint_plan_that_only_levels_is_made_where_a_balance_plan_would_be():
    together = replace(TALKING, current=np.array([0, 0, 0, 0]))
    result = make_result(
        together, np.array([0, 1, 0, 1]), SolverRun(method="joint", bound=0.0, seconds=0.1)
    )
    objective = {"kind": "joint", "max_load_distance_pct": 150}
    for thresholds, moves in (
        ({}, 2),
        ({"good_enough_pct": 100}, 0),
        ({"min_improvement_pct": 100.5}, 0),
    ):
        policy = small_policy(objective=objective, thresholds=thresholds)
        assert result_or_unchanged(together, result, policy).moves == moves
    loses = replace(together, traffic_to=np.array([1, 2]))
    assert result_or_unchanged(loses, result, small_policy(objective=objective)).moves == 0


RACKED = Problem(
    node_ids=("a", "b", "c", "d"),
    resources=("cpu",),
    capacity=np.ones((4, 1)),
    node_state=("alive",) * 4,
    rack=("r", "r", "s", "s"),
    key_group_ids=tuple(f"op/{i}" for i in range(4)),
    operator_ids=("op",) * 4,
    load=np.ones((4, 1)),
    state_bytes=np.full(4, 10),
    current=np.array([0, 1, 2, 3]),
    traffic_from=np.array([0, 1]),
    traffic_to=np.array([2, 3]),
    traffic_rate=np.array([5.0, 5.0]),
)
NEARER = [0, 2, 1, 3]  # both pairs from two racks to one, none to one node
PRICES = {"within_rack_price": 1.0, "between_racks_price": 4.0}


def test_a_joint_plan_is_worth_it_for_traffic_that_stays_within_a_rack():
    assert jointly(RACKED, NEARER, PRICES, min_collocation_gain_pct=75).moves == 2


def test_traffic_within_a_rack_saves_as_much_as_the_prices_say():
    unchanged = jointly(RACKED, NEARER, PRICES, min_collocation_gain_pct=75.5)
    assert unchanged.status is Status.UNCHANGED
    assert "saves 75.00 percent of the traffic by its price within and" in unchanged.reason


def test_racks_count_nothing_where_the_prices_are_equal():
    unchanged = jointly(RACKED, NEARER)
    assert "brings 0.00 percent more of the traffic within nodes" in unchanged.reason


def test_traffic_that_routes_bring_together_counts_as_saved():
    result = make_result(
        TALKING,
        TALKING.current.copy(),
        SolverRun(method="joint", bound=0.0, seconds=0.1),
        is_changed=True,
    )
    after = replace(TALKING, traffic_to=np.array([1, 0]))
    policy = small_policy(objective={"kind": "joint"}, thresholds={"min_collocation_gain_pct": 100})
    assert reason_unchanged(TALKING, result, policy, after) is None
    assert reason_unchanged(TALKING, result, policy) is not None


def weighed(of, plan, least=1.0, **weights):
    result = make_result(of, np.array(plan), SolverRun(method="joint", bound=0.0, seconds=0.1))
    policy = small_policy(
        objective={"kind": "joint", "trade": "weighted", **weights},
        thresholds={"min_weighted_gain": least},
    )
    return result_or_unchanged(of, result, policy)


def test_a_weighed_plan_is_worth_it_for_what_it_gains_all_in_all():
    far = replace(TALKING, current=np.array([0, 0, 0, 1]))
    # Half of the traffic and half of the mean: 50 at 2 for the load, 0 for traffic.
    assert weighed(far, [0, 1, 0, 1], least=149.9, load_weight=2.0).moves == 1
    unchanged = weighed(far, [0, 1, 0, 1], least=150.1, load_weight=2.0)
    assert unchanged.status is Status.UNCHANGED
    assert "gains 150.00 by the weights (min_weighted_gain is 150.1)" in unchanged.reason


def test_a_weighed_plan_pays_for_the_load_that_it_costs():
    one_node = [0, 0, 0, 0]
    assert weighed(TALKING, one_node, traffic_weight=1.1).moves == 2
    unchanged = weighed(TALKING, one_node, traffic_weight=1.005)
    assert "gains 0.50 by the weights" in unchanged.reason
    assert "load distance from 0.00 % to 100.00 % at 1 a percent" in unchanged.reason


def noisy(of, relative, **rest):
    """The problem with relative errors of the loads, over twelve windows."""
    sd = of.load * relative
    noise = {"mean_error": sd, "period_sd": sd, "windows": 12, **rest}
    return replace(of, noise=LoadNoise(node_variance_ratio=np.ones(1), **noise))


def test_a_plan_from_noise_alone_is_not_made():
    unchanged = decided(noisy(UNEVEN, 0.3), [0, 1, 1, 1])
    assert unchanged.status is Status.UNCHANGED
    assert "is within the noise of" in unchanged.reason
    assert "of these 12 windows" in unchanged.reason


def test_a_real_shift_is_answered():
    assert decided(noisy(UNEVEN, 0.01), [0, 1, 1, 1]).moves == 1


def test_the_chance_of_a_plan_from_noise_is_that_of_the_policy():
    shift = noisy(UNEVEN, 0.18)
    assert decided(shift, [0, 1, 1, 1], min_gain_chance=0.5).moves == 1
    careful = decided(shift, [0, 1, 1, 1], min_gain_chance=0.95)
    assert careful.status is Status.UNCHANGED


def test_good_enough_is_compared_with_what_will_be_measured():
    # The loads are level, and yet a period measures a few percent.
    level = noisy(problem([1, 1, 1, 1.04], [0, 0, 1, 1]), 0.1)
    for good_enough, why in ((50, "is good enough"), (0, "is within the noise of")):
        unchanged = decided(level, [1, 0, 0, 1], good_enough_pct=good_enough)
        assert unchanged.status is Status.UNCHANGED
        assert why in unchanged.reason
    assert "load distance to be measured" in decided(level, [1, 0, 0, 1], good_enough_pct=50).reason


def test_the_least_improvement_is_compared_with_what_will_be_measured():
    shift = noisy(UNEVEN, 0.05)
    plan = np.array([0, 1, 1, 1])
    gain = expected_distance(shift, shift.current) - expected_distance(shift, plan)
    assert gain < 33  # 33.3 by the estimated loads alone
    assert decided(shift, plan, min_improvement_pct=gain - 0.1).moves == 1
    unchanged = decided(shift, plan, min_improvement_pct=gain + 0.1)
    assert f"load distance to be measured by {gain:.2f} points" in unchanged.reason


@pytest.mark.parametrize("state", ["dead", "draining"])
def test_noise_does_not_keep_a_key_group_on_a_node_that_goes(state):
    last = noisy(problem([1, 0.001], [0, 1], ("alive", state)), 3.0)
    assert decided(last, [0, 0]).assignment.tolist() == [0, 0]


def test_loads_that_moved_during_the_period_are_named():
    moving = noisy(UNEVEN, 0.3, trend="cpu: loads of nodes moved by 9.0 %")
    assert "loads moved during the period (cpu:" in decided(moving, [0, 1, 1, 1]).reason


def test_a_plan_that_cannot_be_measured_to_be_better_says_so():
    level = noisy(problem([1, 1], [0, 1]), 0.1)
    result = solve(level, Budget(), Stop(seconds=1))
    assert "measurably better" in reason_unchanged(level, result, small_policy())


def evidence(of, plan, **policy):
    result = make_result(of, np.array(plan), SolverRun(method="test", bound=0.0, seconds=0.1))
    return evidence_of(of, result, small_policy(**policy))


def test_the_evidence_of_a_plan_is_known_where_it_decided():
    assert evidence(noisy(UNEVEN, 0.01), [0, 1, 1, 1]).is_real
    assert evidence(UNEVEN, [0, 1, 1, 1]) is None
    assert evidence(noisy(UNEVEN, 0.01), [0, 0, 1, 1]) is None
    last = noisy(problem([1, 0.001], [0, 1], ("alive", "dead")), 0.01)
    assert evidence(last, [0, 0]) is None


NOISY_TALK = {"traffic_error": np.full(2, 30.0), "traffic_period_sd": np.full(2, 30.0)}
CALM_TALK = {"traffic_error": np.full(2, 0.1), "traffic_period_sd": np.full(2, 0.1)}


def test_a_joint_plan_for_traffic_within_its_noise_is_not_made():
    one_pair = [0, 0, 0, 1]
    unchanged = jointly(noisy(TALKING, 0.001, **NOISY_TALK), one_pair)
    assert unchanged.status is Status.UNCHANGED
    assert "the traffic saved, 50.0 %, is within the noise" in unchanged.reason
    assert jointly(noisy(TALKING, 0.001, **CALM_TALK), one_pair).moves == 1


def test_the_traffic_of_a_joint_plan_counts_where_its_noise_is_not_known():
    assert jointly(noisy(TALKING, 0.3), [0, 1, 0, 1]).moves == 2


def test_a_joint_plan_for_load_within_its_noise_is_not_made():
    far = replace(TALKING, current=np.array([0, 0, 0, 1]))
    unchanged = jointly(noisy(far, 0.6), [0, 1, 0, 1], min_collocation_gain_pct=100)
    assert unchanged.status is Status.UNCHANGED
    assert "is within the noise of" in unchanged.reason
    assert jointly(noisy(far, 0.01), [0, 1, 0, 1], min_collocation_gain_pct=100).moves == 1


def test_a_weighed_plan_counts_only_what_is_beyond_the_noise():
    far = replace(TALKING, current=np.array([0, 0, 0, 1]))
    # Half of the traffic and half of the mean: 50 each, of which the load is within the noise.
    assert weighed(noisy(far, 0.01), [0, 1, 0, 1], least=60).moves == 1
    assert "gains 50.00 by the weights" in weighed(noisy(far, 0.6), [0, 1, 0, 1], least=60).reason


def test_the_evidence_of_a_joint_plan_is_the_stronger_of_load_and_traffic():
    joint = {"objective": {"kind": "joint"}}
    by_traffic = evidence(noisy(TALKING, 0.3, **CALM_TALK), [0, 1, 0, 1], **joint)
    assert by_traffic.is_real
    assert "traffic" in by_traffic.text
