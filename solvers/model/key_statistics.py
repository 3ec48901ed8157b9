"""Counted rates of keys and key pairs per second, with bounds, for each period."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ballast.contracts.errors import InvalidInput

Routing = Mapping[str, Mapping[str, int]]
"""Operator to key to key group; other keys go to the key group of their hash."""
KeySplits = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Operator to key to the key groups of its parts; other keys are in one key group."""
Ends = tuple[str, str]
"""The operators at the two ends of an edge."""


@dataclass(frozen=True, slots=True)
class RoutedEdge:
    """The operators of the two ends; pairs were counted for the first of each end."""

    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def ends(self) -> Ends:
        """The operators whose pairs were counted."""
        return self.left[0], self.right[0]


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """Rates of heavy keys by operator, of heavy pairs by edge, and of key groups by name.

    A rate is never too high. The error of a key or pair is the rate that may have been missed. The
    rate of a key or pair without an entry is at most ``missed`` of its operator or edge.
    """

    keys: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    pairs: Mapping[Ends, Mapping[tuple[str, str], float]] = field(default_factory=dict)
    group_rate: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    pair_errors: Mapping[Ends, Mapping[tuple[str, str], float]] = field(default_factory=dict)
    missed: Mapping[str | Ends, float] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)
    """All records of an operator, including keys without a rate."""
    earlier: tuple[EarlierPeriod, ...] = ()
    """Periods before this one, oldest first."""

    def __post_init__(self) -> None:
        ages = [period.rounds_ago for period in self.earlier]
        if any(older <= newer for older, newer in pairwise(ages)):
            raise InvalidInput(f"earlier periods are {ages} rounds ago", allowed="oldest first")


@dataclass(frozen=True, slots=True)
class EarlierPeriod:
    """The statistics of an earlier period, and how many rounds ago that was.

    The number is a fraction if rounds were skipped or late: statistics decay with time.
    """

    rounds_ago: float
    counted: KeyStatistics

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rounds_ago) and self.rounds_ago > 0):
            raise InvalidInput(
                f"a period is {self.rounds_ago!r} rounds ago", allowed="a number above 0"
            )
        if self.counted.earlier:
            raise InvalidInput("an earlier period has earlier periods of its own")
