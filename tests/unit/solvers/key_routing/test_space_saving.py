"""SpaceSaving: its bounds on random streams, merges and decays [MW16-LOCALITY, 3.2]."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.pair_statistics import PairStatistics, merge_statistics
from solvers.key_routing.space_saving import SpaceSaving, merge

MANY = settings(max_examples=200, deadline=None, derandomize=True)
streams = st.lists(st.integers(0, 15), max_size=120)
capacities = st.integers(1, 8)


def summary_of(stream: list[int], capacity: int) -> SpaceSaving[int]:
    summary: SpaceSaving[int] = SpaceSaving(capacity)
    for item in stream:
        summary.add(item)
    return summary


def check_bounds(summary: SpaceSaving[int], truth: Counter[int] | dict[int, float]) -> None:
    held = dict(summary)
    for item in range(16):
        true = truth.get(item, 0)
        estimate = summary.estimate(item)
        assert estimate.at_least <= true + 1e-9
        assert true <= estimate.count + 1e-9
        if item not in held:
            assert true <= summary.unseen + 1e-9
        else:
            assert held[item].error <= summary.unseen + 1e-9


@given(stream=streams, capacity=capacities)
@MANY
def test_every_true_count_is_within_its_bounds(stream: list[int], capacity: int) -> None:
    summary = summary_of(stream, capacity)
    check_bounds(summary, Counter(stream))
    assert len(summary) <= capacity
    assert summary.unseen <= len(stream) / capacity
    assert sum(e.count for _, e in summary) == len(stream)


@given(stream=streams, capacity=capacities)
@MANY
def test_every_item_heavier_than_total_over_capacity_is_held(
    stream: list[int], capacity: int
) -> None:
    held = dict(summary_of(stream, capacity))
    for item, count in Counter(stream).items():
        if count > len(stream) / capacity:
            assert item in held


@given(parts=st.lists(st.tuples(streams, capacities), min_size=1, max_size=4), capacity=capacities)
@MANY
def test_merging_adds_the_bounds(parts: list[tuple[list[int], int]], capacity: int) -> None:
    summaries = [summary_of(stream, own) for stream, own in parts]
    merged = merge(summaries, capacity)
    truth = sum((Counter(stream) for stream, _ in parts), Counter())
    check_bounds(merged, truth)
    added = sum(s.unseen for s in summaries)
    assert merged.unseen >= added
    for _, estimate in merged:
        assert estimate.error <= added + 1e-9
    assert merged.total == sum(len(stream) for stream, _ in parts)


@given(stream=streams, more=streams, capacity=capacities)
@MANY
def test_a_merged_summary_can_go_on_counting(
    stream: list[int], more: list[int], capacity: int
) -> None:
    merged = merge([summary_of(stream, 3), summary_of(stream, 5)], capacity)
    for item in more:
        merged.add(item)
    check_bounds(merged, Counter(stream) + Counter(stream) + Counter(more))


@given(stream=streams, capacity=capacities, factor=st.floats(0, 1))
@MANY
def test_decay_scales_the_bounds(stream: list[int], capacity: int, factor: float) -> None:
    scaled = summary_of(stream, capacity).scaled(factor)
    check_bounds(scaled, {item: factor * n for item, n in Counter(stream).items()})


def test_more_pairs_than_memory_keep_the_memory() -> None:
    statistics = PairStatistics.empty(n_pairs=50, n_keys=20)
    for i in range(5000):
        statistics.observe(f"a{i}", f"b{i % 7}")
    assert len(statistics.pairs) == 50
    assert len(statistics.left) == 20
    assert len(statistics.pairs._heap or ()) <= 4 * 50 + 64
    assert statistics.right.estimate(b"b3").count == 714


def test_keys_are_counted_apart_from_pairs() -> None:
    """One left key with many partners: the key is heavy, and none of its pairs is."""
    statistics = PairStatistics.empty(n_pairs=2, n_keys=10)
    for i in range(100):
        statistics.observe("hub", f"leaf{i}")
    assert statistics.left.estimate(b"hub").at_least == 100


def test_statistics_of_many_instances_are_merged() -> None:
    many = []
    for _ in range(3):
        one = PairStatistics.empty(5, 5)
        one.observe("Asia", "#java", 3)
        many.append(one)
    merged = merge_statistics(many, 5, 5)
    assert merged.pairs.estimate((b"Asia", b"#java")).count == 9
    assert merged.pairs.estimate((b"Asia", b"#java")).error == 0


@pytest.mark.parametrize("weight", [float("nan"), -1.0, float("inf")])
def test_bad_weights_are_refused(weight: float) -> None:
    with pytest.raises(InvalidInput):
        SpaceSaving[int](3).add(1, weight)


def test_a_capacity_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput):
        SpaceSaving[int](0)
