"""The potential is the probability that the next period measures every node within a level."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from solvers.model.budget import Budget
from solvers.noise.load_distance_distribution import next_load_distance
from solvers.rebalance.kernels.arrays import NOWHERE
from solvers.rebalance.noise_potential import ENOUGH, NodeTerms, NoisyPlacement, potential
from solvers.rebalance.search_arrays import Layout
from tests.unit.solvers.instances import make
from tests.unit.solvers.noisy_instances import cluster, expected, with_noise


def placement(problem, level, budget=None, assignment=None):
    layout = Layout.of(problem, budget or Budget())
    places = layout.places_of(problem.current if assignment is None else assignment)
    return layout, NoisyPlacement(
        NodeTerms.of(problem, layout, level), places, layout.fixed.home, np.inf
    )


@pytest.mark.parametrize("level", [3.0, 8.0, 40.0, 90.0])
def test_it_is_minus_the_logarithm_of_the_probability(level):
    problem = cluster(5, 40)
    _, at = placement(problem, level)
    probability = next_load_distance(problem, problem.current).probability(level)
    assert at.total == pytest.approx(-np.log(probability), rel=1e-6)


@pytest.mark.parametrize("capacity", [[1.0, 1.0], [1.0, 3.0], [3.0, 1.0]])
def test_of_two_nodes_the_one_with_less_capacity_decides(capacity):
    problem = with_noise(make([1.0, 2.0, 3.0, 1.0], [0, 0, 1, 1], capacity=capacity), 0.2)
    for level in (20.0, 60.0):
        _, at = placement(problem, level)
        probability = next_load_distance(problem, problem.current).probability(level)
        assert at.total == pytest.approx(-np.log(probability), rel=1e-6)
        at.move(0, 1 - int(at.place[0]))
        moved = at.total
        at.set(at.place)
        assert moved == pytest.approx(at.total)


@pytest.mark.parametrize("nodes", [2, 5])
def test_it_is_log_two_at_the_median(nodes):
    problem = cluster(nodes, 40)
    _, at = placement(problem, expected(problem))
    assert at.total == pytest.approx(ENOUGH, rel=1e-4)


def test_two_resources_with_weights_and_a_cap_are_summed_over_what_is_balanced():
    rng = np.random.default_rng(3)
    problem = make(
        rng.lognormal(0, 0.5, (30, 3)),
        rng.integers(0, 4, 30),
        capacity=np.array([[1.0, 2.0, 90.0]] * 4),
        weight=np.array([1.0, 0.5, 1.0]),
        balanced=np.array([True, True, False]),
    )
    problem = with_noise(problem, 0.1)
    _, at = placement(problem, 40.0)
    probability = next_load_distance(problem, problem.current).probability(40.0)
    assert at.total == pytest.approx(-np.log(probability), rel=1e-6)


def test_far_out_it_is_large_and_still_a_number():
    far = potential(np.array([1e6]), np.array([1e-3]), 0.01)
    assert np.isfinite(far).all()
    assert far[0] > potential(np.array([1e5]), np.array([1e-3]), 0.01)[0]


def test_a_node_without_noise_has_to_be_within_the_level():
    inside, outside = potential(np.array([0.049, 0.051]), np.zeros(2), 0.05)
    assert inside < 1e-3
    assert outside > ENOUGH


@pytest.mark.parametrize("seed", range(5))
def test_a_change_is_the_difference_of_the_totals(seed):
    rng = np.random.default_rng(seed)
    problem = cluster(4, 24, seed)
    _, at = placement(problem, 15.0)
    for _ in range(20):
        item, other = rng.choice(24, 2, replace=False)
        node = int(at.place[other]) if rng.random() < 0.5 else int(rng.integers(4))
        is_swap = node == at.place[other] != at.place[item]
        back = np.array([other if is_swap else NOWHERE])
        if node == at.place[item]:
            continue
        change = float(at.changes(np.array([item]), np.array([node]), back)[0])
        before, source = at.total, int(at.place[item])
        at.move(int(item), node)
        if is_swap:
            at.move(int(other), source)
        assert at.total - before == pytest.approx(change, rel=1e-9, abs=1e-9)


def test_the_budget_used_is_that_of_the_moves_made():
    problem = cluster(3, 12)
    layout, at = placement(problem, 15.0, Budget(moves=2, bytes=10_000))
    away = [k for k in range(12) if at.place[k] != 0][:2]
    for item in away:
        assert at.fits(at.fees(np.array([item]), np.array([0])))[0]
        at.move(item, 0)
    groups = layout.groups[away]
    assert at.price == (2, float(problem.state_bytes[groups].sum()))
    third = next(k for k in range(12) if at.place[k] != 0)
    assert not at.fits(at.fees(np.array([third]), np.array([0])))[0]
    at.move(away[0], int(at.home[away[0]]))
    assert at.price[0] == 1


def test_lists_of_allowed_nodes_hold():
    mask = np.ones((4, 3), dtype=bool)
    mask[0, 2] = mask[1] = False
    mask[1, 0] = True
    problem = with_noise(make([3, 1, 1, 1], [0, 0, 1, 2], allowed=mask))
    layout, at = placement(problem, 15.0)
    item = {int(k): i for i, k in enumerate(layout.groups)}
    nodes = layout.rank

    def may(k, node):
        return bool(at.may_go(np.array([item[k]]), np.array([nodes[node]]))[0])

    assert [may(0, 1), may(0, 2), may(1, 2), may(2, 2)] == [True, False, False, True]


def test_a_cap_and_the_ceiling_of_the_load_distance_hold():
    problem = make(
        [[3.0, 1.0], [1.0, 9.0], [1.0, 1.0]],
        [0, 0, 1],
        capacity=np.array([[1.0, 20.0], [1.0, 5.0]]),
        balanced=np.array([True, False]),
    )
    layout, at = placement(with_noise(problem), 15.0)
    item = {int(k): i for i, k in enumerate(layout.groups)}
    to_second = np.array([layout.rank[1]])
    assert np.isfinite(at.changes(np.array([item[0]]), to_second)[0])
    assert np.isinf(at.changes(np.array([item[1]]), to_second)[0])
    at.ceiling = 0.1
    assert np.isinf(at.changes(np.array([item[0]]), to_second)[0])


def test_loads_that_differ_in_unit_have_the_same_potential():
    problem = cluster(4, 24)
    scaled = dataclasses.replace(
        problem, load=problem.load * 1e9, noise=problem.noise.of_scaled_loads(np.full(24, 1e9))
    )
    assert placement(problem, 9.0)[1].total == pytest.approx(placement(scaled, 9.0)[1].total)
