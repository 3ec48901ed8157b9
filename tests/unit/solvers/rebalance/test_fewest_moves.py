"""The fewest moves whose measured load distance is within the noise of the best plan."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.result import Status
from solvers.model.stop import Stop
from solvers.noise.load_distance_distribution import next_load_distance
from solvers.rebalance import fewest_moves
from solvers.rebalance.fewest_moves import tolerance_of
from solvers.rebalance.solve import solve
from tests.unit.solvers.instances import make
from tests.unit.solvers.noisy_instances import cluster, expected, with_noise

MEASURED = {"precision": "measured"}


def reduced(problem, best, budget=None, **params):
    """The plan of the method, if ``best`` is the best plan."""
    params["start"] = np.array(best)
    return solve(problem, budget or Budget(), Stop(steps=60), method="fewest_moves", params=params)


def level_of(problem, best):
    """The largest expected load distance that is within the noise of a plan."""
    measured = next_load_distance(problem, best)
    return measured.median + tolerance_of(measured, fewest_moves.FewestMovesParams().tolerance)


@pytest.mark.parametrize("seed", range(4))
def test_half_of_the_moves_are_as_good_as_all_of_them(seed):
    problem = cluster(5, 60, seed)
    exact = solve(problem, Budget(), Stop(steps=30), params={"precision": "exact"})
    few = reduced(problem, exact.assignment)
    assert 0 < few.moves <= exact.moves // 2
    assert few.bytes < exact.bytes
    assert expected(problem, few.assignment) <= level_of(problem, exact.assignment) * (1 + 1e-6)


def test_the_bound_and_the_gap_are_those_of_the_exact_problem():
    problem = cluster(4, 30)
    exact = solve(problem, Budget(moves=6), Stop(steps=20), method="milp")
    few = solve(problem, Budget(moves=6), Stop(steps=20), params=MEASURED)
    assert few.method == "fewest_moves"
    assert few.bound <= exact.load_distance + 1e-6
    assert few.gap == pytest.approx(few.load_distance - few.bound)


def test_a_placement_within_the_noise_of_the_best_stays():
    problem = with_noise(make([5.0, 4.6, 5.0, 5.0, 0.2], [0, 0, 1, 1, 1]), 0.2)
    best = solve(problem, Budget(), Stop(steps=10), params={"precision": "exact"})
    assert best.moves > 0
    assert reduced(problem, best.assignment).status is Status.UNCHANGED


def test_less_noise_takes_more_moves():
    problems = [cluster(5, 60, 1, relative) for relative in (0.2, 0.05, 0.001)]
    exact = solve(problems[0], Budget(), Stop(steps=30), params={"precision": "exact"})
    moves = [reduced(problem, exact.assignment).moves for problem in problems]
    assert moves == sorted(moves)
    assert moves[0] < moves[-1]


def test_without_noise_the_best_plan_is_the_plan():
    problem = make([3, 2, 1, 1, 1], [0, 0, 0, 1, 1])
    best = [0, 1, 0, 1, 1]
    assert reduced(problem, best).assignment.tolist() == best
    silent = with_noise(problem, 0.0)
    assert reduced(silent, best).assignment.tolist() == best


@pytest.mark.parametrize("precision", ["exact", "measured"])
def test_without_noise_the_precision_changes_nothing(precision):
    problem = dataclasses.replace(cluster(4, 30), noise=None)
    one = solve(problem, Budget(moves=5), Stop(steps=10), params={"precision": precision})
    other = solve(problem, Budget(moves=5), Stop(steps=10))
    assert np.array_equal(one.assignment, other.assignment)
    assert one.reason == other.reason


def test_an_exact_plan_does_not_depend_on_the_noise():
    noisy = cluster(4, 30)
    known = dataclasses.replace(noisy, noise=None)
    one, other = (
        solve(problem, Budget(moves=8), Stop(steps=10), params={"precision": "exact"})
        for problem in (noisy, known)
    )
    assert np.array_equal(one.assignment, other.assignment)
    assert (one.bound, one.reason) == (other.bound, other.reason)


WILD, CALM = 0.8, 0.01


def single_moves(problem):
    """Every assignment that is one move away from the current one."""
    for k in range(problem.n_key_groups):
        for node in range(problem.n_nodes):
            if node != problem.current[k]:
                assignment = problem.current.copy()
                assignment[k] = node
                yield assignment


@pytest.mark.parametrize("seed", range(6))
def test_the_key_group_that_moves_is_the_one_whose_swings_hurt_least_elsewhere(seed):
    # Three of four nodes are level without one key group of the first. Which one moves, and
    # where to, depends on the noise.
    rng = np.random.default_rng(seed)
    sizes = [3, 1, 2, 2]
    problem = with_noise(
        make(np.ones(8), np.repeat(np.arange(4), sizes)),
        rng.choice([CALM, 0.2, WILD], (8, 1)),
    )
    best = next(
        a
        for a in single_moves(problem)
        if metrics.load_distance(problem, a) == 0 and expected(problem, a) > 0
    )
    found = reduced(problem, best)
    least = min(expected(problem, a) for a in single_moves(problem))
    stays = expected(problem)
    assert found.moves == (0 if stays <= level_of(problem, best) else 1)
    if found.moves:
        assert expected(problem, found.assignment) == pytest.approx(least, rel=1e-6)


def test_wild_key_groups_of_a_dead_node_go_where_their_swings_hurt_least():
    # Nodes 1 and 2 have little noise, 3 and 4 much. Two noisy and two calm key groups move.
    problem = with_noise(
        make(
            [1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0],
            [0, 0, 0, 0, 1, 2, 3, 4],
            states=["dead", *["alive"] * 4],
        ),
        np.array([[WILD], [WILD], [CALM], [CALM], [CALM], [CALM], [WILD], [WILD]]),
    )
    plan = reduced(problem, [3, 4, 1, 2, 1, 2, 3, 4])
    assert set(plan.assignment[:2].tolist()) == {1, 2}
    assert set(plan.assignment[2:4].tolist()) == {3, 4}
    assert (plan.moves, plan.forced_moves) == (0, 4)


def test_a_wild_key_group_goes_to_the_larger_node():
    # On a node of four times the capacity the same variation is a quarter of its load.
    problem = with_noise(
        make(
            [1.0, 1.0, 2.0, 11.0, 12.0],
            [0, 0, 1, 2, 3],
            capacity=[[1.0], [1.0], [4.0], [4.0]],
            states=["dead", "alive", "alive", "alive"],
        ),
        np.array([[WILD], [CALM], [CALM], [CALM], [CALM]]),
    )
    assert reduced(problem, [1, 2, 1, 2, 3]).assignment.tolist() == [2, 1, 1, 2, 3]


def test_of_two_nodes_a_move_that_noise_hides_is_taken_back():
    problem = with_noise(make([1.0] * 20 + [0.02], [0] * 10 + [1] * 10 + [0]), 0.3)
    best = problem.current.copy()
    best[[0, 1, 10, 11]] = [1, 1, 0, 0]
    assert reduced(problem, best).moves == 0


def test_no_move_beyond_any_budget():
    problem = cluster(5, 60, 2)
    for budget in (Budget(moves=3), Budget(bytes=900), Budget(moves=6, bytes=1500)):
        plan = solve(problem, budget, Stop(steps=20), params=MEASURED)
        assert budget.moves is None or plan.moves <= budget.moves
        assert budget.bytes is None or plan.bytes <= budget.bytes
        exact = solve(problem, budget, Stop(steps=20), params={"precision": "exact"})
        assert plan.moves <= exact.moves


def test_pinned_key_groups_and_lists_of_allowed_nodes_hold():
    problem = cluster(4, 40, 3)
    rng = np.random.default_rng(0)
    mask = rng.random((40, 4)) < 0.6
    mask[np.arange(40), problem.current] = True
    problem = dataclasses.replace(problem, pinned=rng.random(40) < 0.3, allowed=mask)
    plan = solve(problem, Budget(), Stop(steps=20), params=MEASURED)
    moved = plan.assignment != problem.current
    assert moved.any()
    assert not (moved & problem.pinned_mask).any()
    assert mask[np.arange(40), plan.assignment].all()


def test_a_cap_holds():
    rng = np.random.default_rng(1)
    load = rng.lognormal(0, 0.5, (40, 2))
    problem = make(
        load,
        rng.integers(0, 4, 40),
        capacity=np.array([[1.0, load[:, 1].sum() / 4 * 1.3]] * 4),
        balanced=np.array([True, False]),
    )
    problem = with_noise(problem, 0.05)
    plan = solve(problem, Budget(), Stop(steps=20), params=MEASURED)
    assert plan.moves > 0
    assert not metrics.over_cap(problem, plan.assignment).any()


@pytest.mark.parametrize("moves", [4, 12, None])
def test_draining_goes_on_at_least_as_fast_as_in_the_exact_plan(moves):
    problem = cluster(5, 60, 4)
    states = ("draining", *("alive",) * 4)
    problem = dataclasses.replace(problem, node_state=states)
    budget = Budget(moves=moves)
    few, exact = (
        solve(problem, budget, Stop(steps=20), params={"precision": name})
        for name in ("measured", "exact")
    )
    left = [int(np.count_nonzero(plan.assignment == 0)) for plan in (few, exact)]
    assert left[0] <= left[1]
    assert few.draining_load <= exact.draining_load + 1e-9
    assert moves is None or few.moves <= moves


def test_a_plan_is_never_worse_by_its_estimated_load_distance_than_doing_nothing():
    # Spreading the noisy ones would lower the measured distance, and raise the estimated one.
    problem = with_noise(
        make([2.0, 2.0, 1.9, 2.1], [0, 0, 1, 1]), np.array([[0.9], [0.9], [CALM], [CALM]])
    )
    plan = solve(problem, Budget(), Stop(steps=20), params=MEASURED)
    assert plan.load_distance <= plan.load_distance_before


def test_many_key_groups_are_planned_by_searches_that_end_early():
    problem = cluster(40, fewest_moves.MOST_ITEMS + 400, 5, 0.1)
    exact = solve(problem, Budget(), Stop(steps=1), method="search")
    few = solve(
        problem,
        Budget(),
        Stop(steps=1),
        method="fewest_moves",
        params={"start": exact.assignment},
    )
    assert 0 < few.moves <= exact.moves // 2
    assert expected(problem, few.assignment) <= level_of(problem, exact.assignment) * (1 + 1e-6)


def test_steps_make_it_repeatable_and_names_and_units_change_nothing():
    problem = cluster(5, 60, 6)
    renamed = dataclasses.replace(
        problem, node_ids=tuple(f"host-{9 - i}" for i in range(problem.n_nodes))
    )
    factors = np.full(problem.n_key_groups, 2.0**20)
    scaled = dataclasses.replace(
        problem,
        load=problem.load * 2.0**20,
        noise=problem.noise.of_scaled_loads(factors),
    )
    plans = [
        solve(each, Budget(), Stop(steps=20), seed=3, params=MEASURED).assignment
        for each in (problem, problem, renamed, scaled)
    ]
    assert all(np.array_equal(plans[0], plan) for plan in plans[1:])


def test_noise_may_be_of_any_type_of_number():
    problem = make([3, 2, 1, 1, 1], [0, 0, 0, 1, 1])
    for kind in (np.float32, np.int64):
        error = np.ones((5, 1), dtype=kind)
        noisy = with_noise(problem, mean_error=error, period_sd=error)
        assert solve(noisy, Budget(), Stop(steps=5), params=MEASURED).is_solved


def test_a_problem_without_a_plan_says_why():
    problem = with_noise(make([1.0], [0], states=["dead"]))
    for method in ("auto", "fewest_moves"):
        result = solve(problem, Budget(), Stop(steps=5), method=method)
        assert result.status is Status.INFEASIBLE
        assert result.reason
