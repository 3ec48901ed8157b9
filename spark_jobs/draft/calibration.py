"""Calibrate planning with measured outcomes: costs of records, duration and trust of gains. Pure.

The figures are the CPU cost of a record between nodes, how long the gain of a plan lasts, and which
part of a promised gain is realised. Without outcomes, the cost of a record is the one measured in
the snapshot. Everything else has the first values of the policy.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Outcome
from solvers.model.amortisation import FIRST_PROMISE, LEAST_TRUST, learned_lifetime, learned_trust

COLLOCATION, SERIALISE = "collocation_factor_pct", "serialise_us"
CALIBRATING_FIGURES = (COLLOCATION, SERIALISE)
OUTCOMES_KEPT = 5
"""How many of the newest measured costs the median is taken of: machines become more busy."""
LONGEST_LIFETIME_S = 30 * 86_400.0
"""The longest lifetime of a gain, even if no plan has lost any of its gain so far."""


@dataclass(frozen=True)
class Calibration:
    """What measured outcomes say about costs and gains of plans."""

    send_cpu_s: float
    """CPU seconds to send a record to another node."""
    receive_cpu_s: float
    """CPU seconds to receive a record from another node."""
    lifetime_s: float
    """Seconds that the gain of a plan is expected to last."""
    trust: float
    """Realised gain over promised gain."""

    @property
    def serialise_us(self) -> float:
        """CPU microseconds of a record, both ends together."""
        return 1e6 * (self.send_cpu_s + self.receive_cpu_s)


def calibrate(
    policy: JobPolicy, outcomes: Sequence[Outcome], serialise_us: float | None = None
) -> Calibration:
    """Calibrate with all outcomes that were measured so far.

    Args:
        policy: its first values hold for everything that was not measured.
        outcomes: outcomes of the job's plans, in any order.
        serialise_us: CPU microseconds of a record between nodes in the snapshot; 0 or None if
            unknown.
    """
    ordered = sorted(outcomes, key=lambda row: row.measured_at)
    send, receive = _costs(policy, ordered, serialise_us)
    by_version = _collocation_by_version(ordered)
    return Calibration(send, receive, _lifetime_s(policy, by_version), _trust(by_version))


def _costs(
    policy: JobPolicy, ordered: Sequence[Outcome], in_snapshot: float | None
) -> tuple[float, float]:
    """The measured cost of both ends, shared between them in the proportion of the first values."""
    first = policy.traffic
    measured = [row.measured for row in ordered if row.figure == SERIALISE][-OUTCOMES_KEPT:]
    if not measured and in_snapshot:
        measured = [in_snapshot]
    if not measured:
        return first.send_cpu_s, first.receive_cpu_s
    both = first.send_cpu_s + first.receive_cpu_s
    share = first.send_cpu_s / both if both > 0 else 0.5
    learned = statistics.median(measured) / 1e6
    return share * learned, (1.0 - share) * learned


@dataclass(frozen=True)
class _CollocationGain:
    """The collocation factor of one outcome: before the plan, promised and measured."""

    measured_at: datetime
    before: float
    promised: float | None
    measured: float

    @property
    def gain(self) -> float:
        return self.measured - self.before


def _collocation_by_version(ordered: Sequence[Outcome]) -> list[list[_CollocationGain]]:
    """Collocation factors of each version that has a figure from before, oldest first."""
    versions: dict[int, list[_CollocationGain]] = defaultdict(list)
    for row in ordered:
        if row.figure == COLLOCATION and row.before is not None:
            found = _CollocationGain(row.measured_at, row.before, row.promised, row.measured)
            versions[row.version].append(found)
    return list(versions.values())


def _lifetime_s(policy: JobPolicy, by_version: Sequence[Sequence[_CollocationGain]]) -> float:
    """Seconds that a gain lasts, at most as long as plans were measured or as ``first_life_s``.

    One promise that lasts for ``first_life_s`` is counted in addition, so that small measured gains
    have little influence.
    """
    seconds = list(_intervals(by_version))
    if not seconds:
        return policy.gate.first_life_s
    mean_s = statistics.fmean(seconds)
    if mean_s <= 0:
        return policy.gate.first_life_s
    gains = [[max(0.0, found.gain) for found in version] for version in by_version]
    first = max(1.0, policy.gate.first_life_s / mean_s)
    prior = [FIRST_PROMISE, FIRST_PROMISE * (1.0 - 1.0 / first)]
    periods = learned_lifetime([prior, *gains], longest=max(first, len(seconds)))
    return min(LONGEST_LIFETIME_S, periods * mean_s)


def _intervals(by_version: Sequence[Sequence[_CollocationGain]]) -> Iterator[float]:
    for version in by_version:
        for before, after in itertools.pairwise(version):
            yield (after.measured_at - before.measured_at).total_seconds()


def _trust(by_version: Sequence[Sequence[_CollocationGain]]) -> float:
    """Realised over promised gain, by the first measurement of each version.

    One promise that was kept is counted in addition, so that small promises have little influence.
    """
    realised, promised = [], []
    for version in by_version:
        first = version[0]
        if first.promised is not None and first.promised > first.before:
            realised.append(first.gain)
            promised.append(first.promised - first.before)
    trust = learned_trust(realised, promised, kept_before=FIRST_PROMISE)
    return max(LEAST_TRUST, trust)
