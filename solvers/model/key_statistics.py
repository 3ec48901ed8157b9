"""What was counted of keys and pairs of keys: rates a second with bounds, period by period."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ballast.contracts.errors import InvalidInput

Routing = Mapping[str, Mapping[str, int]]
"""Operator to key to key group; keys that are not in it go by hash."""
Ends = tuple[str, str]
"""The operators at the two ends of an edge."""


@dataclass(frozen=True, slots=True)
class RoutedEdge:
    """The operators of its two ends; the first of each end is the one whose pairs were counted."""

    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def ends(self) -> Ends:
        """The operators whose pairs were counted."""
        return self.left[0], self.right[0]


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """Rates of heavy keys by operator, of heavy pairs by edge, and of key groups by name.

    A rate is never too high. What may have been missed of a key or pair is its error; one without
    a rate has at most what ``missed`` says of its operator or edge.
    """

    keys: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    pairs: Mapping[Ends, Mapping[tuple[str, str], float]] = field(default_factory=dict)
    group_rate: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    pair_errors: Mapping[Ends, Mapping[tuple[str, str], float]] = field(default_factory=dict)
    missed: Mapping[str | Ends, float] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)
    """All records of an operator, those of keys without a rate among them."""
    earlier: tuple[EarlierPeriod, ...] = ()
    """Periods before this one, oldest first."""

    def __post_init__(self) -> None:
        ages = [period.rounds_ago for period in self.earlier]
        if any(older <= newer for older, newer in pairwise(ages)):
            raise InvalidInput(f"earlier periods are {ages} rounds ago", allowed="oldest first")


@dataclass(frozen=True, slots=True)
class EarlierPeriod:
    """What was counted in a period before, and how many rounds ago that was.

    Not a whole number where rounds were left out or came late: statistics fade with time.
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
