"""The concentration of an amount at one place, and its lower bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from solvers.model.concentration import (
    concentration,
    fair_shares,
    least_above_pct,
    reachable_distance_pct,
)


def fair(*capacity, gone=()):
    staying = np.array([i not in gone for i in range(len(capacity))])
    return fair_shares(np.array(capacity, dtype=float), staying)


def test_fair_shares_are_by_capacity_over_the_nodes_that_stay():
    assert fair(1, 2, 1, gone=[2]).tolist() == pytest.approx([1 / 3, 2 / 3, 0])


def test_the_place_with_most_of_an_amount_for_its_size_is_named():
    found = concentration(np.array([3.0, 3.0, 2.0]), np.array([0, 1, 1]), fair(1, 3))
    assert found is not None
    assert (found.place, found.share) == (0, pytest.approx(3 / 8))
    assert found.above_pct == pytest.approx(50.0)


def test_an_amount_on_a_node_that_goes_counts_in_the_whole_and_never_leads():
    found = concentration(np.array([8.0, 1.0]), np.array([0, 1]), fair(1, 1, gone=[0]))
    assert found is not None
    assert (found.place, found.share) == (1, pytest.approx(1 / 9))


@pytest.mark.parametrize(("amount", "gone"), [([0.0], []), ([1.0], [0])])
def test_without_an_amount_or_a_place_there_is_no_concentration(amount, gone):
    assert concentration(np.array(amount), np.array([0]), fair(1, gone=gone)) is None


def test_an_amount_that_is_all_at_one_place_is_so_however_noisy_it_is():
    amount, noise = np.array([5.0, 5.0]), np.array([4.0, 4.0])
    alone = concentration(amount, np.array([0, 0]), fair(1, 1), noise)
    assert alone is not None
    assert alone.sd_pct == pytest.approx(0.0)


def test_the_noise_of_a_share_is_that_of_many_draws():
    amount, place = np.array([6.0, 3.0, 1.0]), np.array([0, 1, 1])
    sd = np.array([0.3, 0.2, 0.1])
    found = concentration(amount, place, fair(1, 1), sd**2)
    draws = np.random.default_rng(1).normal(amount, sd, (200_000, 3))
    drawn = 100.0 * (draws[:, 0] / draws.sum(axis=1) / 0.5 - 1.0)
    assert found is not None
    assert found.sd_pct == pytest.approx(drawn.std(), rel=0.02)


def best_of_all(amount, capacity):
    """The least excess over all placements, by exhaustive search."""
    shares = fair(*capacity)
    placements = itertools.product(range(len(capacity)), repeat=len(amount))
    found = (concentration(np.array(amount), np.array(p), shares) for p in placements)
    return min(each.above_pct for each in found if each is not None)


@pytest.mark.parametrize("seed", range(8))
def test_no_placement_is_below_the_lower_bound(seed):
    random = np.random.default_rng(seed)
    amount = random.pareto(1.0, size=int(random.integers(1, 7))) + 0.1
    capacity = random.integers(1, 4, size=3).astype(float).tolist()
    best = best_of_all(amount.tolist(), capacity)
    assert 0.0 <= least_above_pct(amount, fair(*capacity)) <= best + 1e-9


@pytest.mark.parametrize(
    ("amount", "nodes", "least"),
    [([1.0], 4, 300.0), ([1.0] * 3, 6, 100.0), ([1.0] * 7, 6, 5 / 7 * 100), ([1.0] * 12, 6, 0.0)],
)
def test_few_key_groups_cannot_be_level(amount, nodes, least):
    assert least_above_pct(np.array(amount), fair(*[1] * nodes)) == pytest.approx(least)


def test_a_greedy_placement_leaves_nodes_empty_where_key_groups_are_few():
    assert reachable_distance_pct(np.ones(2), fair(1, 1, 1, 1)) == pytest.approx(100.0)
    assert reachable_distance_pct(np.ones(8), fair(1, 1, 1, 1)) == pytest.approx(0.0)
    assert reachable_distance_pct(np.zeros(2), fair(1, 1)) == 0.0
