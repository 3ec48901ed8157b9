"""The amortisation gate: a move is made only if it saves more than it costs.

This is an open question of [MW16-LOCALITY, 6]. A key group, a key or a whole plan moves only if the
remote records that it saves over its expected lifetime are worth more than the bytes moved and the
pause. The lifetime of a gain is learned from the locality that earlier plans lost with time, and
predicted gains are multiplied by the share of earlier gains that was measured.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ballast.contracts.errors import InvalidInput

CLUSTER, KEY_GROUP, KEY, PLAN = "cluster", "key group", "key", "plan"
"""Kinds of moves that may be held back: a group of key groups, one key group, a key, the plan."""
MOST_EXAMPLES = 10
"""Most entries of a kind that are reported one by one."""
MOST_NAMES = 5
"""Most key groups of a cluster or a plan that are named."""
LONGEST_LIFETIME = 1e6
"""Lifetime in periods that is used if no earlier plan lost locality."""
RECORDS_PER_BYTE = 0.02
"""Price of a byte by default: a remote record is worth 50 bytes of state."""
OBSERVED_PLANS = 12
"""Number of earlier plans whose locality is observed over time."""
LEAST_TRUST = 0.05
"""Least trust: with 0 nothing would ever move again."""
FIRST_PROMISE = 1.0
"""Points of locality that count as promised and measured before the first outcome. Much smaller
gains are mostly noise, for instance if keys moved for balance alone."""


@dataclass(frozen=True, slots=True)
class AmortisationGate:
    """The prices of one byte moved and of one second of pause, in remote records.

    ``lifetime`` is the expected lifetime of a gain, in the unit of time of the rates. ``trust`` is
    the share of the predicted gains that was measured so far.
    """

    records_per_byte: float
    records_per_pause_s: float = 0.0
    lifetime: float = 1.0
    trust: float = 1.0

    def __post_init__(self) -> None:
        for name in ("records_per_byte", "records_per_pause_s", "lifetime", "trust"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInput(
                    f"gate.{name} is {value!r}", value=value, allowed="a number >= 0"
                )

    def earned(self, saved_rate: float) -> float:
        """Return the remote records that a saving of this rate is expected to avoid."""
        return self.trust * self.lifetime * saved_rate

    def price(self, n_bytes: float, pause_s: float = 0.0) -> float:
        """Return the cost of a move in remote records."""
        return self.records_per_byte * n_bytes + self.records_per_pause_s * pause_s

    def figures_text(self, saved_rate: float, n_bytes: float, pause_s: float = 0.0) -> str:
        """Return the two figures that decide, as text."""
        return (
            f"saves {self.earned(saved_rate):.6g} remote records over its lifetime, "
            f"costs as much as {self.price(n_bytes, pause_s):.6g}"
        )

    def pays(self, saved_rate: float, n_bytes: float, pause_s: float = 0.0) -> bool:
        """Return whether the saving is larger than the cost.

        A move that saves nothing is held back even if it costs nothing.
        """
        return self.earned(saved_rate) > self.price(n_bytes, pause_s)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Moves that the gate holds back, with the figures that decided.

    ``count`` is the number of key groups or keys; ``what`` may name only some of them.
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
    """Return the largest entries of each kind, with a few names, and one entry for the rest."""
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


def learned_lifetime(
    localities: Sequence[Sequence[float]], floor: float = 0.0, longest: float = LONGEST_LIFETIME
) -> float:
    """Return the expected lifetime of a plan in periods, from the locality of earlier plans by age.

    The model is an advantage over the floor that decays by a constant factor in each period. Its
    expected total is that of a geometric series, 1 / (1 - factor).

    Args:
        localities: ``localities[p][a]`` is the locality of plan p at age a.
        floor: The locality without any plan.
        longest: The largest lifetime that is returned.
    """
    kept = lost = 0.0
    for ages in localities:
        for before, after in itertools.pairwise(ages):
            kept += max(0.0, after - floor)
            lost += max(0.0, before - floor)
    if lost <= 0:
        return 1.0  # Nothing is known yet, so a gain counts for the next period only.
    factor = min(kept / lost, 1.0 - 1.0 / max(1.0, longest))
    return 1.0 / (1.0 - factor)


def learned_trust(
    realised: Sequence[float], predicted: Sequence[float], kept_before: float = 0.0
) -> float:
    """Return the measured over the predicted gain of all outcomes together; 1 without outcomes.

    Args:
        realised: The measured gains.
        predicted: The predicted gains, in the same order.
        kept_before: A gain that counts as predicted and measured before the first outcome.

    Raises:
        InvalidInput: The two sequences have different lengths.
    """
    promised = kept_before + sum(predicted)
    if len(realised) != len(predicted):
        raise InvalidInput("realised and predicted gains need the same length")
    if promised <= 0:
        return 1.0
    return max(0.0, (kept_before + sum(realised)) / promised)


class AmortisationMemory:
    """Lifetime and realised share of gains, learned from earlier plans.

    Call ``record_plan`` when a plan comes into force and ``record_period`` after each period.
    """

    def __init__(self, floor: float) -> None:
        self._floor = floor
        self._ages: deque[list[float]] = deque(maxlen=OBSERVED_PLANS)
        self._predicted: list[float] = []
        self._realised: list[float] = []
        self._periods = 0

    def record_plan(self, predicted_gain: float) -> None:
        """Add a plan with its predicted gain, in points of locality over the state without it."""
        self._ages.append([])
        self._predicted.append(predicted_gain)

    def record_period(self, localities: Sequence[float], realised_gain: float) -> None:
        """Add the measurements of a period.

        Args:
            localities: The locality of each observed plan in this period, oldest plan first.
            realised_gain: The measured gain of the plan in force over the state before it.

        Raises:
            InvalidInput: The number of localities is not that of the observed plans.
        """
        if len(localities) != len(self._ages):
            raise InvalidInput(f"{len(localities)} localities for {len(self._ages)} plans")
        for ages, locality in zip(self._ages, localities, strict=True):
            ages.append(locality)
        self._realised.append(realised_gain)
        self._periods += 1

    @property
    def lifetime(self) -> float:
        """The expected lifetime in periods, at most the number of observed periods."""
        return learned_lifetime(self._ages, self._floor, longest=max(1, self._periods))

    @property
    def trust(self) -> float:
        """The share of the predicted gains that was measured."""
        promised = self._predicted[: len(self._realised)]
        return max(LEAST_TRUST, learned_trust(self._realised, promised, FIRST_PROMISE))

    def gate(self, records_per_byte: float = RECORDS_PER_BYTE) -> AmortisationGate:
        """Return the gate with the learned lifetime and trust."""
        return AmortisationGate(records_per_byte, lifetime=self.lifetime, trust=self.trust)
