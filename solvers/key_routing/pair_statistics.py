"""Counts key pairs of two neighbouring stages, and the keys of each stage separately.

[MW16-LOCALITY] weighs a key by the counted pairs it is in. With few pairs that is far from the load
of a server, so each stage has its own summary of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solvers.key_routing.key_bytes import key_bytes
from solvers.key_routing.space_saving import SpaceSaving, merge

Pair = tuple[bytes, bytes]


@dataclass(slots=True)
class PairStatistics:
    """Summaries of one instance.

    Attributes:
        pairs: (key in, key out) pairs.
        left: Keys in.
        right: Keys out.
    """

    pairs: SpaceSaving[Pair]
    left: SpaceSaving[bytes]
    right: SpaceSaving[bytes]

    @classmethod
    def empty(cls, n_pairs: int, n_keys: int) -> PairStatistics:
        """Return empty summaries of these capacities."""
        return cls(SpaceSaving(n_pairs), SpaceSaving(n_keys), SpaceSaving(n_keys))

    def observe(self, left: str | bytes, right: str | bytes, weight: float = 1.0) -> None:
        """Count a record that came with one key and left with the other."""
        a, b = key_bytes(left), key_bytes(right)
        self.pairs.add((a, b), weight)
        self.left.add(a, weight)
        self.right.add(b, weight)

    def scaled(self, factor: float) -> PairStatistics:
        """Return the summaries with all weights times ``factor``."""
        return PairStatistics(
            self.pairs.scaled(factor), self.left.scaled(factor), self.right.scaled(factor)
        )


def merge_statistics(many: Sequence[PairStatistics], n_pairs: int, n_keys: int) -> PairStatistics:
    """Return the summary of many instances or windows; the error bounds add up."""
    return PairStatistics(
        merge([s.pairs for s in many], n_pairs),
        merge([s.left for s in many], n_keys),
        merge([s.right for s in many], n_keys),
    )
