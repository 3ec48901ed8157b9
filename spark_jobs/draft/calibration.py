"""What earlier plans taught: the cost of a record between nodes, how long plans last, and how much
of a promised gain comes. Pure.

Everything comes from ``plans.outcomes``; before there are any, the cost of a record is what the
snapshot itself measured, and else the policy's first values hold.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ballast.contracts.policy import JobPolicy
from solvers.model.amortisation import FIRST_PROMISE, LEAST_TRUST, learned_life, learned_trust
from spark_jobs.draft.problem import Row

COLLOCATION, SERIALISE = "collocation_factor_pct", "serialise_us"
OUTCOMES_KEPT = 5
"""Measured costs of a record that the median is taken of: a quiet machine may become a busy one."""
LONGEST_LIFE_S = 30 * 86_400.0
"""Where plans lost nothing so far, they are not taken to last forever."""


@dataclass(frozen=True)
class Learned:
    """CPU seconds of a record sent and received between nodes; seconds that what a plan gains is
    expected to last; realised over predicted gain."""

    send_cpu_s: float
    receive_cpu_s: float
    life_s: float
    trust: float

    @property
    def serialise_us(self) -> float:
        """CPU microseconds of a record, both ends together."""
        return 1e6 * (self.send_cpu_s + self.receive_cpu_s)


def learn(policy: JobPolicy, outcomes: Sequence[Row], serialise_us: float | None = None) -> Learned:
    """From all outcomes that were measured so far, in any order.

    ``serialise_us`` is what a record between nodes cost in the snapshot; 0 or None if unknown.
    """
    ordered = sorted(outcomes, key=lambda row: row["measured_at"])
    send, receive = _costs(policy, ordered, serialise_us)
    by_version = _collocation_by_version(ordered)
    return Learned(send, receive, _life_s(policy, by_version), _trust(by_version))


def _costs(
    policy: JobPolicy, ordered: Sequence[Row], in_snapshot: float | None
) -> tuple[float, float]:
    """Measured for both ends together; shared out between them as the first values are."""
    first = policy.traffic
    measured = [row["measured"] for row in ordered if row["figure"] == SERIALISE][-OUTCOMES_KEPT:]
    if not measured and in_snapshot:
        measured = [in_snapshot]
    if not measured:
        return first.send_cpu_s, first.receive_cpu_s
    both = first.send_cpu_s + first.receive_cpu_s
    share = first.send_cpu_s / both if both > 0 else 0.5
    learned = statistics.median(measured) / 1e6
    return share * learned, (1.0 - share) * learned


def _collocation_by_version(ordered: Sequence[Row]) -> list[list[Row]]:
    """Measurements of each version that said how it was before, oldest first."""
    versions: dict[int, list[Row]] = defaultdict(list)
    for row in ordered:
        if row["figure"] == COLLOCATION and row["before"] is not None:
            versions[row["version"]].append(row)
    return list(versions.values())


def _life_s(policy: JobPolicy, by_version: Sequence[Sequence[Row]]) -> float:
    """At most as long as plans have been watched, or as the first life: beyond that nothing was
    learned. A first promise that lasts for the first life counts beside what was measured, so that
    a gain much smaller than that says little."""
    seconds = list(_intervals(by_version))
    if not seconds:
        return policy.gate.first_life_s
    mean_s = statistics.fmean(seconds)
    if mean_s <= 0:
        return policy.gate.first_life_s
    gains = [[max(0.0, row["measured"] - row["before"]) for row in rows] for rows in by_version]
    first = max(1.0, policy.gate.first_life_s / mean_s)
    prior = [FIRST_PROMISE, FIRST_PROMISE * (1.0 - 1.0 / first)]
    periods = learned_life([prior, *gains], longest=max(first, len(seconds)))
    return min(LONGEST_LIFE_S, periods * mean_s)


def _intervals(by_version: Sequence[Sequence[Row]]) -> Iterator[float]:
    for rows in by_version:
        for before, after in itertools.pairwise(rows):
            yield (after["measured_at"] - before["measured_at"]).total_seconds()


def _trust(by_version: Sequence[Sequence[Row]]) -> float:
    """By the first measurement of each version: later ones show how long it lasts. A first promise
    counts as kept, so that a promise much smaller than that says little."""
    promised = [rows[0] for rows in by_version if rows[0]["promised"] is not None]
    gaining = [row for row in promised if row["promised"] > row["before"]]
    trust = learned_trust(
        [row["measured"] - row["before"] for row in gaining],
        [row["promised"] - row["before"] for row in gaining],
        kept_before=FIRST_PROMISE,
    )
    return max(LEAST_TRUST, trust)
