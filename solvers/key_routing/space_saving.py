"""SpaceSaving (Metwally et al.; [MW16-LOCALITY, 3.2]): the heaviest items of a stream.

It uses bounded memory. Every operation keeps two bounds: ``count - error <= true weight <= count``
for an item in the summary, and ``true weight <= unseen`` for any other item. Errors never exceed
``unseen``, and on a plain stream ``unseen <= total / capacity``. Merging adds the bounds, and
scaling scales them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from ballast.contracts.errors import InvalidInput

Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The true weight is in [count - error, count]."""

    count: float
    error: float

    @property
    def at_least(self) -> float:
        return max(0.0, self.count - self.error)


class SpaceSaving(Generic[Item]):
    """Holds at most ``capacity`` items."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise InvalidInput(f"capacity is {capacity}", value=capacity, allowed="a number >= 1")
        self.capacity = capacity
        self.total = 0.0
        self._counts: dict[Item, float] = {}
        self._errors: dict[Item, float] = {}
        # The heap is made when an item first has to leave; a summary with room needs no order.
        self._heap: list[tuple[float, int, Item]] | None = None
        self._number = 0
        self._floor = 0.0  # bound on items that are not in the summary, from merging

    @classmethod
    def of(
        cls,
        capacity: int,
        estimates: Mapping[Item, Estimate],
        *,
        unseen: float,
        total: float,
    ) -> SpaceSaving[Item]:
        """Return a summary with these bounds.

        Raises:
            InvalidInput: there are more items than the capacity.
        """
        if len(estimates) > capacity:
            raise InvalidInput(f"{len(estimates)} items for a capacity of {capacity}")
        summary: SpaceSaving[Item] = cls(capacity)
        summary.total, summary._floor = total, unseen
        summary._counts = {item: estimate.count for item, estimate in estimates.items()}
        summary._errors = {item: estimate.error for item, estimate in estimates.items()}
        return summary

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[tuple[Item, Estimate]]:
        for item, count in self._counts.items():
            yield item, Estimate(count, self._errors[item])

    @property
    def counts(self) -> Mapping[Item, float]:
        """Upper bounds of the weights of all items in the summary, without a copy."""
        return MappingProxyType(self._counts)

    @property
    def at_least(self) -> dict[Item, float]:
        """Lower bounds of the weights of all items in the summary."""
        return {item: max(0.0, n - self._errors[item]) for item, n in self._counts.items()}

    @property
    def unseen(self) -> float:
        """Upper bound of the weight of any item that is not in the summary."""
        if len(self._counts) < self.capacity:
            return self._floor
        return max(self._floor, self._lightest()[0])

    def add(self, item: Item, weight: float = 1.0) -> None:
        """Count an occurrence. A new item takes the count of the lightest item as its error.

        Raises:
            InvalidInput: the weight is not a number >= 0.
        """
        if not (math.isfinite(weight) and weight >= 0):
            raise InvalidInput(f"the weight of {item!r} is {weight!r}", allowed="a number >= 0")
        if weight == 0:
            return
        self.total += weight
        if item in self._counts:
            self._put(item, self._counts[item] + weight, self._errors[item])
            return
        bound = self.unseen
        if len(self._counts) >= self.capacity:
            lightest = self._lightest()[2]
            del self._counts[lightest], self._errors[lightest]
            # The item that left can weigh as much as its bound.
            self._floor = max(self._floor, bound)
        self._put(item, bound + weight, bound)

    def estimate(self, item: Item) -> Estimate:
        """Return bounds of an item's weight, ``unseen`` if it is not in the summary."""
        if item in self._counts:
            return Estimate(self._counts[item], self._errors[item])
        return Estimate(self.unseen, self.unseen)

    def scaled(self, factor: float) -> SpaceSaving[Item]:
        """Return a summary with all weights times ``factor``."""
        if not (math.isfinite(factor) and factor >= 0):
            raise InvalidInput(f"the factor is {factor!r}", allowed="a number >= 0")
        result: SpaceSaving[Item] = SpaceSaving(self.capacity)
        if factor == 0:
            return result
        result.total = factor * self.total
        result._floor = factor * self._floor
        result._counts = {item: factor * count for item, count in self._counts.items()}
        result._errors = {item: factor * error for item, error in self._errors.items()}
        return result

    def _put(self, item: Item, count: float, error: float) -> None:
        self._counts[item], self._errors[item] = count, error
        if self._heap is None:
            return
        self._number += 1
        heapq.heappush(self._heap, (count, self._number, item))
        if len(self._heap) > 4 * self.capacity + 64:
            self._heap = None

    def _lightest(self) -> tuple[float, int, Item]:
        """Return the lightest item; outdated entries of the heap are removed when they come up."""
        if self._heap is None:
            self._heap = [(c, i, held) for i, (held, c) in enumerate(self._counts.items())]
            self._number = len(self._heap)
            heapq.heapify(self._heap)
        while True:
            count, number, item = self._heap[0]
            if self._counts.get(item) == count:
                return count, number, item
            heapq.heappop(self._heap)


def merge(summaries: Sequence[SpaceSaving[Item]], capacity: int) -> SpaceSaving[Item]:
    """Return one summary of all streams; counts, errors and bounds add up.

    An item that is not in a summary can weigh up to its ``unseen`` there, so that much is added to
    both count and error. Items above the capacity are dropped, lightest first, and raise
    ``unseen``.
    """
    merged: SpaceSaving[Item] = SpaceSaving(capacity)
    unseen = sum(summary.unseen for summary in summaries)
    counts: dict[Item, float] = {}
    errors: dict[Item, float] = {}
    for summary in summaries:
        # An item starts with the sum of all ``unseen``; a summary with the item corrects its part.
        own = summary.unseen
        for item, count in summary._counts.items():
            counts[item] = counts.get(item, unseen) - own + count
            errors[item] = errors.get(item, unseen) - own + summary._errors[item]
    dropped = 0.0
    if len(counts) > capacity:
        order = sorted(counts, key=lambda item: -counts[item])
        dropped = counts[order[capacity]]
        counts = {item: counts[item] for item in order[:capacity]}
    merged.total = sum(summary.total for summary in summaries)
    merged._floor = max(unseen, dropped)
    merged._counts = counts
    merged._errors = {item: max(0.0, errors[item]) for item in counts}
    return merged
