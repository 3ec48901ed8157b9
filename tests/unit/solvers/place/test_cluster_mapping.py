"""Operators over clusters of different size: [DODO, 6.2] and its evaluation's two cases (6.4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.place import dynamic_mapping, static_mapping
from solvers.place.cluster_mapping import Transmission, correlation, mapping_after, paired_clusters

NODES = [3, 6, 1]
GENERATOR, EXTRACTOR, COUNT, TOP_N = range(4)
RISING = np.linspace(0.9, 1.1, 8)


def rising(*levels: float) -> np.ndarray:
    return np.outer(levels, RISING)


def map_(series: np.ndarray, current: list[int], *, weigh_by_capacity: bool = True) -> tuple:
    return dynamic_mapping(
        series,
        current,
        NODES,
        load_threshold=0.15,
        correlation_threshold=1.1,
        weigh_by_capacity=weigh_by_capacity,
    )


def test_extreme_case_moves_the_count_off_the_small_cluster() -> None:
    """Table 7: cluster 3 has one node and two operators; the count goes to the six nodes."""
    series = rising(2.4, 4.2, 0.75, 0.25)
    assert map_(series, [0, 1, 2, 2]) == (Transmission(COUNT, 2, 1),)


def test_optimal_case_makes_no_needless_move_with_capacity() -> None:
    """Table 8: averages are level, although the sums are not."""
    assert map_(rising(2.0, 3.0, 1.2, 0.6), [0, 1, 1, 2]) == ()


def test_optimal_case_without_capacity_moves_the_count_to_the_single_node() -> None:
    """As the evaluation says of the variant without capacity: a needless move."""
    moves = map_(rising(2.0, 3.0, 1.2, 0.6), [0, 1, 1, 2], weigh_by_capacity=False)
    assert moves == (Transmission(COUNT, 1, 2),)


def test_the_operator_that_correlates_most_with_its_own_cluster_goes_first() -> None:
    t = np.arange(8)
    up, down = 1 + 0.1 * t, 1.7 - 0.1 * t
    series = np.array([up, up, down, 0.2 * down])
    moves = dynamic_mapping(
        series, [0, 0, 0, 1], [1, 1], load_threshold=0.1, correlation_threshold=1.1
    )
    assert moves
    assert moves[0].operator in (0, 1)


def test_clusters_that_rise_and_fall_together_are_left_alone() -> None:
    series = np.array([3 * RISING, RISING])
    moves = dynamic_mapping(series, [0, 1], [1, 1], load_threshold=0.1, correlation_threshold=0.9)
    assert moves == ()


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_move_turns_the_difference_around(seed: int) -> None:
    """The condition of line 7: the emptier cluster of a pair gains less than half the
    difference."""
    rng = np.random.default_rng(seed)
    series, current = rng.lognormal(0, 0.8, (12, 6)), rng.integers(0, 4, 12)
    nodes = rng.integers(1, 8, 4).astype(float)
    moves = dynamic_mapping(series, current, nodes, load_threshold=0.0, correlation_threshold=1.1)

    def averages(mapping: np.ndarray) -> np.ndarray:
        return np.array([series[mapping == c].sum(axis=0).mean() for c in range(4)]) / nodes

    before, after = averages(current), averages(mapping_after(current, moves))
    for move in moves:
        gained = after[move.to_cluster] - before[move.to_cluster]
        assert gained < (before[move.from_cluster] - before[move.to_cluster]) / 2 + 1e-9


def test_the_fullest_cluster_is_paired_with_the_emptiest() -> None:
    assert paired_clusters(np.array([0.5, 0.9, 0.1, 0.7])) == [(1, 2), (3, 0)]
    assert paired_clusters(np.array([0.5, 0.9, 0.1])) == [(1, 2)]


def test_correlation_is_pearsons_and_zero_for_a_flat_series() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(20), rng.random(20)
    assert correlation(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert correlation(a, np.ones(20)) == 0


def test_static_mapping_levels_averages_and_not_sums() -> None:
    load = [6.0, 3.0, 1.0]
    mapping = static_mapping(load, NODES)
    averages = [sum(load[k] for k in range(3) if mapping[k] == c) / NODES[c] for c in range(3)]
    assert averages == [1.0, 1.0, 1.0]


def test_a_cluster_of_no_node_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no node"):
        static_mapping([1.0], [0])
    with pytest.raises(InvalidInput, match="no node"):
        static_mapping([1.0], [])
