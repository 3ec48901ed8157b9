"""What ``make demo-kafka`` found, what it must show, and its table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ballast.contracts.promise_side import promise_side
from ballast.contracts.records import Ack, Outcome, Promise
from ballast.contracts.tables import ABOVE
from embedded.report import boxed, promised_text, side_text
from examples.orders.check import Exactness
from examples.orders.load import Gaps

LARGEST_SHARE_OF_BEST = 1 / 3
"""Largest measured load distance, as a share of the best one that an assignor of Kafka has."""
COMPARED = ("range", "cooperative-sticky")
"""The assignors that the plan must beat; others are shown."""


@dataclass(frozen=True)
class KafkaFindings:
    """Figures of the demonstration."""

    client: str
    by_assignor: Mapping[str, float]
    """Load distance under each of Kafka's own assignors, in percent."""
    promise: Promise
    outcome: Outcome
    consumers_pct: float
    """The load distance under the plan by the consumers' own lines."""
    ack: Ack
    take_up: Gaps
    control: Gaps
    """Gaps of the same partitions in a time as long, before the plan."""
    exactness: Exactness
    peak_memory_bytes: int

    @property
    def best_pct(self) -> float:
        """The least load distance of the assignors that the plan must beat."""
        return min(self.by_assignor[name] for name in COMPARED)


def kafka_shortcomings(found: KafkaFindings) -> list[str]:
    """What the demonstration must show and did not show; empty is success."""
    problems = []
    measured, allowed = found.outcome.measured, LARGEST_SHARE_OF_BEST * found.best_pct
    if measured > allowed:
        problems.append(
            f"measured load distance {measured:.2f} % is more than a third of {found.best_pct:.2f} "
            "%, the best of range and cooperative-sticky"
        )
    highest = found.promise.highest
    if highest is not None and promise_side(measured, 0.0, highest) == ABOVE:
        problems.append(
            f"measured load distance {measured:.2f} % is above {highest:.2f} %, the end of the "
            "promised 99.9 % interval"
        )
    exact = found.exactness
    if exact.lost or exact.doubled or not exact.fed:
        problems.append(f"counts are not exact: {_exactness_text(exact)}")
    return problems


def kafka_report_lines(found: KafkaFindings) -> list[str]:
    """The lines of the final table."""
    outcome = found.outcome
    rows = [
        *((f"load distance under {n}", f"{v:.2f} %") for n, v in found.by_assignor.items()),
        ("load distance before the plan", _percent(outcome.before)),
        ("load distance promised", promised_text(found.promise)),
        ("load distance measured", f"{outcome.measured:.2f} %, over {outcome.windows} windows"),
        ("by the consumers' own lines", f"{found.consumers_pct:.2f} %"),
        ("promise", side_text(found.promise, outcome.measured)),
        ("partitions moved", f"{found.ack.moved_key_groups}"),
        ("pause", f"{found.ack.pause_ms:.0f} ms, longest of a member's joins"),
        (
            "longest gap, moved partitions",
            _gap_text(found.take_up.moved_ms, found.control.moved_ms),
        ),
        ("longest gap, others", _gap_text(found.take_up.unmoved_ms, found.control.unmoved_ms)),
        ("counts", _exactness_text(found.exactness)),
        ("peak memory", f"{found.peak_memory_bytes / 2**30:.2f} GiB, all processes"),
    ]
    return boxed(f"Consumer group orders, {found.client} clients", rows)


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f} %"


def _gap_text(take_up_ms: float | None, control_ms: float | None) -> str:
    if take_up_ms is None or control_ms is None:
        return "no such partition"
    return f"{take_up_ms:.0f} ms, {control_ms:.0f} in a control time before the plan"


def _exactness_text(exact: Exactness) -> str:
    return f"{exact.fed:,} fed, lost {exact.lost}, doubled {exact.doubled}"
