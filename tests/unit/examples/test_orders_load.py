"""Load of nodes and gaps of partitions from the lines of the orders example."""

from __future__ import annotations

import pytest

from examples.orders.check import ProcessedOrder
from examples.orders.load import Span, load_distance_pct, longest_gaps, node_of_partitions


def order(node: str, partition: int, at: float, cpu_ms: float = 1.0) -> ProcessedOrder:
    return ProcessedOrder(node, partition, 0, 0, at, cpu_ms)


def test_the_load_distance_counts_what_is_within_the_span_and_idle_nodes() -> None:
    orders = [order("a", 0, 1, 3.0), order("b", 1, 1, 3.0), order("b", 1, 9, 100.0)]
    assert load_distance_pct(orders, ["a", "b"], Span(0, 5)) == 0
    assert load_distance_pct(orders, ["a", "b", "c"], Span(0, 5)) == 100


def test_a_span_without_orders_has_no_load_distance() -> None:
    with pytest.raises(ValueError, match="nothing was processed"):
        load_distance_pct([order("a", 0, 9)], ["a", "b"], Span(0, 5))


def test_a_partition_is_on_the_node_that_processed_it_last() -> None:
    orders = [order("b", 0, 3), order("a", 0, 1), order("a", 1, 2), order("c", 0, 7)]
    assert node_of_partitions(orders, Span(0, 5)) == {0: "b", 1: "a"}


def test_gaps_that_reach_into_the_span_count_and_others_do_not() -> None:
    orders = [order("a", 0, at) for at in (0, 9, 10, 13, 14, 40)]
    orders += [order("a", 1, at) for at in (0, 9.5, 11, 12, 13)]
    gaps = longest_gaps(orders, {0}, Span(9.8, 12.5))
    assert gaps.moved_ms == 3000
    assert gaps.unmoved_ms == 1500
    assert longest_gaps(orders, {0, 1}, Span(9.8, 12.5)).unmoved_ms is None


def test_a_span_can_be_moved_back() -> None:
    assert Span(10, 14).moved_back(4) == Span(6, 10)
