"""The fullest and the emptiest of many nodes, kept while single values change (O(log N) each)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable


class LoadExtremes:
    """Two heaps with outdated entries left in them until they come up."""

    def __init__(self, values: list[float], members: Iterable[int]) -> None:
        self._values = values
        self._members = list(members)
        self._rebuild()

    def _rebuild(self) -> None:
        self._high = [(-self._values[i], i) for i in self._members]
        self._low = [(self._values[i], i) for i in self._members]
        heapq.heapify(self._high)
        heapq.heapify(self._low)

    def changed(self, member: int) -> None:
        """The member's entry in the shared list of values has changed."""
        if len(self._high) > 4 * len(self._members) + 16:
            self._rebuild()
            return
        value = self._values[member]
        heapq.heappush(self._high, (-value, member))
        heapq.heappush(self._low, (value, member))

    def largest(self, but: tuple[int, ...] = ()) -> float | None:
        found = self._first(self._high, -1.0, but)
        return None if found is None else -found

    def smallest(self, but: tuple[int, ...] = ()) -> float | None:
        return self._first(self._low, 1.0, but)

    def _first(
        self, heap: list[tuple[float, int]], sign: float, but: tuple[int, ...]
    ) -> float | None:
        """The top valid entry that is not excluded; excluded ones go back afterwards."""
        aside: list[tuple[float, int]] = []
        found = None
        while heap:
            value, member = heap[0]
            if sign * self._values[member] != value:
                heapq.heappop(heap)
            elif member in but:
                aside.append(heapq.heappop(heap))
            else:
                found = value
                break
        for entry in aside:
            heapq.heappush(heap, entry)
        return found
