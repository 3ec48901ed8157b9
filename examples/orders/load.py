"""Load of nodes, and gaps of partitions, from the lines that consumers wrote. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from examples.orders.check import ProcessedOrder


@dataclass(frozen=True)
class Span:
    """A part of a run, in seconds since 1970; the end is exclusive."""

    start: float
    end: float

    def has(self, at: float) -> bool:
        """Whether a moment is within it."""
        return self.start <= at < self.end

    def moved_back(self, seconds: float) -> Span:
        """The span of the same length that is so much earlier."""
        return Span(self.start - seconds, self.end - seconds)


@dataclass(frozen=True)
class Gaps:
    """The longest time, in ms, in which one of several partitions was not processed."""

    moved_ms: float | None
    """Of partitions that changed their owner; None if there is none."""
    unmoved_ms: float | None
    """Of the others; None if there is none."""


def load_distance_pct(
    orders: Iterable[ProcessedOrder], nodes: Collection[str], span: Span
) -> float:
    """Load distance by CPU time of what was processed within a span.

    Args:
        orders: what was processed.
        nodes: the nodes that share the load; one that processed nothing counts.
        span: the time that counts.
    """
    cpu_ms = dict.fromkeys(nodes, 0.0)
    for order in orders:
        if span.has(order.at):
            cpu_ms[order.node] += order.cpu_ms
    mean = sum(cpu_ms.values()) / len(cpu_ms)
    if mean == 0:
        raise ValueError("nothing was processed in the span")
    return 100 * max(abs(load - mean) for load in cpu_ms.values()) / mean


def node_of_partitions(orders: Iterable[ProcessedOrder], span: Span) -> dict[int, str]:
    """The node that processed each partition last within a span."""
    last: dict[int, ProcessedOrder] = {}
    for order in orders:
        if span.has(order.at) and (
            order.partition not in last or last[order.partition].at <= order.at
        ):
            last[order.partition] = order
    return {partition: order.node for partition, order in last.items()}


def longest_gaps(orders: Iterable[ProcessedOrder], moved: Collection[int], span: Span) -> Gaps:
    """The longest gaps of moved and of other partitions that reach into a span."""
    times: dict[int, list[float]] = defaultdict(list)
    for order in orders:
        times[order.partition].append(order.at)
    gaps = {partition: _longest_gap_ms(sorted(found), span) for partition, found in times.items()}
    return Gaps(
        _largest(gaps, lambda partition: partition in moved),
        _largest(gaps, lambda partition: partition not in moved),
    )


def _longest_gap_ms(times: list[float], span: Span) -> float:
    """The longest time between two orders of which a part is within the span."""
    between = [
        after - before
        for before, after in pairwise(times)
        if before < span.end and after > span.start
    ]
    return 1000 * max(between, default=0.0)


def _largest(gaps: Mapping[int, float], is_counted: Callable[[int], bool]) -> float | None:
    return max((gap for partition, gap in gaps.items() if is_counted(partition)), default=None)
