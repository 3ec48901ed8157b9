"""The amortisation gate: a move must earn what it costs ([MW16-LOCALITY]'s open question, section
6).

A key group, a key or a whole plan moves only if the remote records it saves over its expected life
outweigh the bytes moved and the pause. The life is learned from how fast earlier plans lost their
locality, and the promise is corrected by realised over predicted gain.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ballast.contracts.errors import InvalidInput

CLUSTER, KEY_GROUP, KEY, PLAN = "cluster", "key group", "key", "plan"
"""What may be held back: key groups that belong together, a single one, a key, the whole plan."""
MOST_EXAMPLES = 10
"""Of a kind that are reported one by one."""
MOST_NAMES = 5
"""Key groups of a cluster or a plan that are named."""
LONGEST_LIFE = 1e6
"""Periods: what is taken where earlier plans lost nothing."""
RECORDS_PER_BYTE = 0.02
"""The price of a byte where nobody names one: a remote record is worth 50 bytes of state."""
WATCHED_PLANS = 12
"""Earlier plans whose locality is followed as they age."""
LEAST_TRUST = 0.05
"""Nothing would move again at a trust of 0, and so nothing could ever earn it back."""
FIRST_PROMISE = 1.0
"""Points of locality that are taken as promised and kept before there is any outcome: promises
much smaller than that say little, as where keys moved for balance alone."""


@dataclass(frozen=True, slots=True)
class AmortisationGate:
    """Prices in remote records: what one byte moved and one second of pause are worth.

    ``life`` is in the unit of time of the rates; ``trust`` is realised over predicted gain so far.
    """

    records_per_byte: float
    records_per_pause_s: float = 0.0
    life: float = 1.0
    trust: float = 1.0

    def __post_init__(self) -> None:
        for name in ("records_per_byte", "records_per_pause_s", "life", "trust"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInput(
                    f"gate.{name} is {value!r}", value=value, allowed="a number >= 0"
                )

    def earned(self, saved_rate: float) -> float:
        """Remote records that a saving of this rate is expected to avoid."""
        return self.trust * self.life * saved_rate

    def price(self, n_bytes: float, pause_s: float = 0.0) -> float:
        return self.records_per_byte * n_bytes + self.records_per_pause_s * pause_s

    def in_words(self, saved_rate: float, n_bytes: float, pause_s: float = 0.0) -> str:
        """Both figures that decide."""
        return (
            f"saves {self.earned(saved_rate):.6g} remote records over its life, "
            f"costs the worth of {self.price(n_bytes, pause_s):.6g}"
        )

    def pays(self, saved_rate: float, n_bytes: float, pause_s: float = 0.0) -> bool:
        """Strictly, so that a move that saves nothing is held back even if it costs nothing."""
        return self.earned(saved_rate) > self.price(n_bytes, pause_s)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What the gate kept from moving, and the figures it decided by.

    ``count`` is how many key groups or keys that are; ``what`` may name only some of them.
    """

    what: tuple[str, ...]
    saved_rate: float
    bytes: int
    reason: str
    kind: str = CLUSTER
    count: int = 0

    def __post_init__(self) -> None:
        if not self.count:
            object.__setattr__(self, "count", len(self.what))


def shortened(held: Sequence[HeldBack], most: int = MOST_EXAMPLES) -> tuple[HeldBack, ...]:
    """Of each kind those that would save the most, with a few names, and one for all the rest."""
    kept: list[HeldBack] = []
    for kind in dict.fromkeys(one.kind for one in held):
        of_kind = [one for one in held if one.kind == kind]
        of_kind.sort(key=lambda one: (-one.saved_rate, one.what))
        kept += [replace(one, what=one.what[:MOST_NAMES]) for one in of_kind[:most]]
        rest = of_kind[most:]
        if rest:
            saved, n_bytes = sum(one.saved_rate for one in rest), sum(one.bytes for one in rest)
            count = sum(one.count for one in rest)
            kept.append(HeldBack((), saved, n_bytes, f"and {len(rest)} more", kind, count))
    return tuple(kept)


def learned_life(
    localities: Sequence[Sequence[float]], floor: float = 0.0, longest: float = LONGEST_LIFE
) -> float:
    """Expected life of a plan, in periods, from the locality that earlier plans had by age.

    ``localities[p][a]`` is plan p's locality at age a, and ``floor`` what no plan at all would
    have. The advantage over the floor is taken to decay by a constant factor a period; its
    expected total is that of a geometric series, 1 / (1 - factor), and at most ``longest``.
    """
    kept = lost = 0.0
    for ages in localities:
        for before, after in itertools.pairwise(ages):
            kept += max(0.0, after - floor)
            lost += max(0.0, before - floor)
    if lost <= 0:
        return 1.0  # Nothing learned yet: a plan is sure to live for the next period alone.
    factor = min(kept / lost, 1.0 - 1.0 / max(1.0, longest))
    return 1.0 / (1.0 - factor)


def learned_trust(
    realised: Sequence[float], predicted: Sequence[float], kept_before: float = 0.0
) -> float:
    """Realised over predicted gain, over all outcomes together; 1 before there are any.

    ``kept_before`` is a gain taken as promised and realised beforehand.
    """
    promised = kept_before + sum(predicted)
    if len(realised) != len(predicted):
        raise InvalidInput("realised and predicted gains need the same length")
    if promised <= 0:
        return 1.0
    return max(0.0, (kept_before + sum(realised)) / promised)


class AmortisationMemory:
    """What earlier plans taught: how long a plan lives, and how much of its promise comes true.

    A period goes ``planned`` (a plan comes into force, with the gain it promises) and ``served``
    (what came, by the plan in force and by those before it).
    """

    def __init__(self, floor: float) -> None:
        self._floor = floor
        self._ages: deque[list[float]] = deque(maxlen=WATCHED_PLANS)
        self._predicted: list[float] = []
        self._realised: list[float] = []
        self._periods = 0

    def planned(self, predicted_gain: float) -> None:
        """``predicted_gain``: points of locality that the plan adds to what is without it."""
        self._ages.append([])
        self._predicted.append(predicted_gain)

    def served(self, localities: Sequence[float], realised_gain: float) -> None:
        """A period is over. ``localities``: what each watched plan, oldest first, had or would
        have had in it. ``realised_gain``: of the plan in force, over what was before it."""
        if len(localities) != len(self._ages):
            raise InvalidInput(f"{len(localities)} localities for {len(self._ages)} plans")
        for ages, locality in zip(self._ages, localities, strict=True):
            ages.append(locality)
        self._realised.append(realised_gain)
        self._periods += 1

    @property
    def life(self) -> float:
        """At most as long as plans have been watched: beyond that nothing was learned."""
        return learned_life(self._ages, self._floor, longest=max(1, self._periods))

    @property
    def trust(self) -> float:
        promised = self._predicted[: len(self._realised)]
        return max(LEAST_TRUST, learned_trust(self._realised, promised, FIRST_PROMISE))

    def gate(self, records_per_byte: float = RECORDS_PER_BYTE) -> AmortisationGate:
        return AmortisationGate(records_per_byte, life=self.life, trust=self.trust)
