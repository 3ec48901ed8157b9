"""The heaviest keys and pairs of keys, counted in bounded memory with a bound on every error.

A summary holds counts of some items, and for all others a number that none of them exceeds:

    in ``counts``:      counts[item] <= true <= counts[item] + errors[item]   (errors: 0 if absent)
    not in ``counts``:  true <= missed

Every function here keeps this true, so it holds for whatever they are combined to:

- ``exact`` counts everything: all errors and ``missed`` are 0.
- ``cut`` drops items. A dropped one occurred at most counts + errors times, so ``missed`` becomes
  the largest of these and of what it was; the bounds of those that stay are not touched.
- ``added`` describes two streams one after the other. Lower bounds add up, and so do upper ones: an
  item that one of the two does not have occurred there at most its ``missed`` times, which is
  added to the item's error; an item neither has, at most the sum of both.
- ``joined`` describes streams of which no two have an item in common, such as what different
  nodes count: a key is on one node. An item's bounds are those of its own stream, and an item
  that no summary has is of one of the streams, so at most the largest ``missed``.

Within a node and batch nothing is cut before ``CHUNK`` different items were seen. Unlike in
SpaceSaving (Middleware'16, 3.2), whose counts may be too high, a count here never says more than
what was there, and an item that stays is exact unless it was cut before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ballast.contracts.identity import is_routable

Item = TypeVar("Item", bound=Hashable)

# Different items a node counts exactly before it cuts, what it then keeps, and what it sends.
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
        """No item occurred more often than this."""
        found = self.counts.get(item)
        return self.missed if found is None else found + self.errors.get(item, 0)


def exact(counts: Mapping[Item, int], total: int | None = None) -> Summary[Item]:
    """A stream of which everything was counted, or everything but ``total`` minus the counts."""
    return Summary(counts, {}, 0, sum(counts.values()) if total is None else total)


def cut(summary: Summary[Item], keep: int) -> Summary[Item]:
    """The ``keep`` items that may be the heaviest; of equal ones those that came first."""
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
    """Two streams one after the other."""
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
    """Streams side by side, of which no two have an item in common."""
    counts: dict[Item, int] = {}
    errors: dict[Item, int] = {}
    for part in parts:
        counts.update(part.counts)
        errors.update(part.errors)
    missed = max((part.missed for part in parts), default=0)
    return Summary(counts, errors, missed, sum(part.total for part in parts))


class KeyCounter:
    """Counts the items of one task, keys or pairs of them; fed with many at a time."""

    def __init__(self) -> None:
        self._chunk: Counter[Any] = Counter()
        self._before: Summary[Any] = Summary()

    def count(self, items: Iterable[Any]) -> None:
        """Count items; beyond a chunk's worth of different ones the lightest are cut."""
        self._chunk.update(items)
        if len(self._chunk) > CHUNK:
            self._fold()

    def summary(self) -> Summary[Any]:
        """What was counted, small enough to be sent."""
        self._fold()
        return self._before

    def _fold(self) -> None:
        """Keys that cannot be routed are left out only here, once for each and not per record."""
        counts = {item: count for item, count in self._chunk.items() if _is_countable(item)}
        chunk = exact(counts, self._chunk.total())
        whole = added(self._before, chunk) if self._before.total else chunk
        self._before = cut(whole, KEPT_IN_BATCH)
        self._chunk = Counter()


def _is_countable(item: str | tuple[str, str]) -> bool:
    return is_routable(item) if isinstance(item, str) else all(map(is_routable, item))


def to_json(summary: Summary[Any]) -> list[Any]:
    """Plain values, column by column; :func:`from_json` makes the summary again."""
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
    """What :func:`to_json` wrote down."""
    items = [item if isinstance(item, str) else tuple(item) for item in found[0]]
    counts = dict(zip(items, found[1], strict=True))
    errors = {items[position]: error for position, error in found[2]}
    return Summary(counts, errors, found[3], found[4])
