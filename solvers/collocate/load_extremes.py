"""The fullest and the emptiest of many nodes while single values change, in O(log N) each."""

from __future__ import annotations

import heapq
from collections.abc import Iterable


class LoadExtremes:
    """Two heaps; an outdated entry is removed when it comes up.

    ``values`` is shared with the caller, who calls ``changed`` after each change.
    """

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
        """Note that the value of a member has changed."""
        if len(self._high) > 4 * len(self._members) + 16:
            self._rebuild()
            return
        value = self._values[member]
        heapq.heappush(self._high, (-value, member))
        heapq.heappush(self._low, (value, member))

    def largest(self, but: tuple[int, ...] = ()) -> float | None:
        """Return the largest value of all members except ``but``; None without any."""
        negated = self._first(self._high, -1.0, but)
        return None if negated is None else -negated

    def smallest(self, but: tuple[int, ...] = ()) -> float | None:
        """Return the smallest value of all members except ``but``; None without any."""
        return self._first(self._low, 1.0, but)

    def _first(
        self, heap: list[tuple[float, int]], sign: float, but: tuple[int, ...]
    ) -> float | None:
        """Return the top valid entry that is not in ``but``; the heap keeps those in ``but``."""
        aside: list[tuple[float, int]] = []
        first = None
        while heap:
            value, member = heap[0]
            if sign * self._values[member] != value:
                heapq.heappop(heap)
            elif member in but:
                aside.append(heapq.heappop(heap))
            else:
                first = value
                break
        for entry in aside:
            heapq.heappush(heap, entry)
        return first
