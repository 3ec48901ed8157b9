"""Counts the heaviest keys and pairs of keys in bounded memory, with a bound on every error.

A summary has counts of some items, and one upper bound for all other items:

    in ``counts``:      counts[item] <= true <= counts[item] + errors[item]   (errors: 0 if absent)
    not in ``counts``:  true <= missed

Every function here preserves these bounds, so that they hold for all combinations:

- ``exact`` counts everything: all errors and ``missed`` are 0.
- ``cut`` drops items. A dropped item occurred at most counts + errors times, so ``missed`` becomes
  the largest of these and of its old value. The bounds of the other items do not change.
- ``added`` describes two streams one after the other. Lower bounds are summed, and so are upper
  bounds: an item that is missing in one summary occurred there at most its ``missed`` times, which
  is added to the item's error. An item that is missing in both occurred at most the sum of both.
- ``joined`` describes streams that have no item in common, for example the counts of different
  nodes, because a key is on one node. The bounds of an item are those of its own stream. An item
  that is in no summary belongs to one of the streams, so the largest ``missed`` is its bound.

Within a node and batch nothing is cut before ``CHUNK`` different items were counted. Unlike in
SpaceSaving [MW16-LOCALITY, 3.2], whose counts may be too high, a count here is never above the true
one, and the count of an item that was never cut is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ballast.contracts.identity import is_routable

Item = TypeVar("Item", bound=Hashable)

# Different items that a node counts exactly before it cuts, and how many it then keeps and sends.
CHUNK = 16_000
KEPT_IN_BATCH = 4_000
# Rows of metrics.key_pairs for an edge (pairs) or an operator (keys) and window.
KEPT_IN_WINDOW = 2_000


@dataclass(frozen=True)
class Summary(Generic[Item]):
    """Counts of the heaviest items of a stream."""

    counts: Mapping[Item, int] = field(default_factory=dict)
    errors: Mapping[Item, int] = field(default_factory=dict)
    missed: int = 0
    total: int = 0
    """Records of the stream, also of items that are not counted."""

    @property
    def others(self) -> int:
        """Records that are in no count."""
        return self.total - sum(self.counts.values())

    def at_most(self, item: Item) -> int:
        """An upper bound of the occurrences of an item."""
        found = self.counts.get(item)
        return self.missed if found is None else found + self.errors.get(item, 0)


def exact(counts: Mapping[Item, int], total: int | None = None) -> Summary[Item]:
    """Exact counts; ``total`` may be larger if some records were not counted."""
    return Summary(counts, {}, 0, sum(counts.values()) if total is None else total)


def cut(summary: Summary[Item], keep: int) -> Summary[Item]:
    """The ``keep`` items with the largest upper bounds; among equal ones the first."""
    if len(summary.counts) <= keep:
        return summary
    order = sorted(summary.counts, key=summary.at_most, reverse=True)
    kept = order[:keep]
    return Summary(
        {item: summary.counts[item] for item in kept},
        {item: summary.errors[item] for item in kept if item in summary.errors},
        max(summary.missed, summary.at_most(order[keep])),
        summary.total,
    )


def added(first: Summary[Item], second: Summary[Item]) -> Summary[Item]:
    """The summary of two streams one after the other."""
    counts = dict(first.counts)
    for item, count in second.counts.items():
        counts[item] = counts.get(item, 0) + count
    missed = first.missed + second.missed
    errors = {}
    if missed or first.errors or second.errors:
        for item, count in counts.items():
            error = first.at_most(item) + second.at_most(item) - count
            if error:
                errors[item] = error
    return Summary(counts, errors, missed, first.total + second.total)


def joined(parts: Sequence[Summary[Item]]) -> Summary[Item]:
    """The summary of streams that have no item in common."""
    counts: dict[Item, int] = {}
    errors: dict[Item, int] = {}
    for part in parts:
        counts.update(part.counts)
        errors.update(part.errors)
    missed = max((part.missed for part in parts), default=0)
    return Summary(counts, errors, missed, sum(part.total for part in parts))


class KeyCounter:
    """Counts the keys, or the pairs of keys, of one task."""

    def __init__(self) -> None:
        self._chunk: Counter[Any] = Counter()
        self._before: Summary[Any] = Summary()

    def count(self, items: Iterable[Any]) -> None:
        """Counts items; beyond ``CHUNK`` different ones the lightest are cut."""
        self._chunk.update(items)
        if len(self._chunk) > CHUNK:
            self._fold()

    def summary(self) -> Summary[Any]:
        """The counts, cut to a size that can be sent."""
        self._fold()
        return self._before

    def _fold(self) -> None:
        """Adds the chunk to the summary, without keys that cannot be routed."""
        counts = {item: count for item, count in self._chunk.items() if _is_countable(item)}
        chunk = exact(counts, self._chunk.total())
        whole = added(self._before, chunk) if self._before.total else chunk
        self._before = cut(whole, KEPT_IN_BATCH)
        self._chunk = Counter()


def _is_countable(item: str | tuple[str, str]) -> bool:
    return is_routable(item) if isinstance(item, str) else all(map(is_routable, item))


def to_json(summary: Summary[Any]) -> list[Any]:
    """Plain values, column by column, which :func:`from_json` reads."""
    items = list(summary.counts)
    return [
        items,
        list(summary.counts.values()),
        [[position, summary.errors[item]] for position, item in enumerate(items)
         if item in summary.errors],
        summary.missed,
        summary.total,
    ]  # fmt: skip


def from_json(found: list[Any]) -> Summary[Any]:
    """The summary that :func:`to_json` wrote."""
    items = [item if isinstance(item, str) else tuple(item) for item in found[0]]
    counts = dict(zip(items, found[1], strict=True))
    errors = {items[position]: error for position, error in found[2]}
    return Summary(counts, errors, found[3], found[4])
