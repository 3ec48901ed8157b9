"""The report of ``make demo-kafka``, and what it must show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from embedded.report import boxed

LARGEST_SHARE_OF_BEST = 1 / 3


@dataclass(frozen=True)
class Gaps:
    """The longest time without a processed record, in milliseconds."""

    control_ms: float
    """Of any partition, before the plan, in a time as long as the take-up was watched."""
    moved_ms: float
    """Of partitions that the plan moved."""
    stayed_ms: float | None
    """Of the others; None if the plan moved every partition."""


@dataclass(frozen=True)
class KafkaFindings:
    """What the demonstration measured."""

    without_plan_pct: Mapping[str, float]
    """Load distance by CPU under each assignor of Kafka."""
    before_pct: float
    promised_pct: float
    highest_pct: float | None
    """The end of the promised 99.9 % interval; None without an interval."""
    measured_pct: float
    moves: int
    pause_ms: float
    gaps: Gaps
    fed: int
    doubled_before_kill: int
    lost: int
    doubled: int
    killed_in_take_up: bool
    """Whether the member was killed after the plan was accepted and before it was applied."""
    ownerless_partitions: int
    """Partitions without an owner after the kill, once the group was stable."""


def shortcomings(found: KafkaFindings) -> list[str]:
    """What the demonstration must show and did not; empty is success."""
    best = min(found.without_plan_pct.values())
    checks = [
        (
            found.measured_pct > LARGEST_SHARE_OF_BEST * best,
            (
                f"measured load distance {found.measured_pct:.2f} % is more than a third of "
                f"{best:.2f} %, the best without a plan"
            ),
        ),
        (
            found.highest_pct is not None and found.measured_pct > found.highest_pct,
            (
                f"measured load distance {found.measured_pct:.2f} % is above "
                f"{found.highest_pct or 0:.2f} %, the end of the promised 99.9 % interval"
            ),
        ),
        (
            found.doubled_before_kill > 0,
            f"{found.doubled_before_kill} records were processed twice without a crash",
        ),
        (found.lost > 0, f"{found.lost} records were lost"),
        (not found.killed_in_take_up, "the member was not killed during the take-up"),
        (
            found.ownerless_partitions > 0,
            f"{found.ownerless_partitions} partitions have no owner after the kill",
        ),
    ]
    return [problem for is_missed, problem in checks if is_missed]


def report_lines(found: KafkaFindings) -> list[str]:
    """The lines of the final table."""
    stayed = found.gaps.stayed_ms
    rows = [
        *((f"load distance under {name}", f"{pct:.2f} % of the mean")
          for name, pct in found.without_plan_pct.items()),
        ("load distance before the plan", f"{found.before_pct:.2f} % of the mean"),
        ("load distance promised", _promised(found)),
        ("load distance measured", f"{found.measured_pct:.2f} % of the mean"),
        ("partitions moved", f"{found.moves}"),
        ("pause", f"{found.pause_ms:.0f} ms, the longest of a member"),
        ("longest gap before the plan", f"{found.gaps.control_ms:.0f} ms"),
        ("longest gap of moved partitions", f"{found.gaps.moved_ms:.0f} ms"),
        ("longest gap of the others", "none stayed" if stayed is None else f"{stayed:.0f} ms"),
        ("records", f"{found.fed:,} fed, {found.doubled_before_kill} doubled without a crash"),
        ("after a member was killed", f"{found.lost} lost, {found.doubled} doubled in all"),
    ]  # fmt: skip
    return boxed("Consumer group orders", rows)


def _promised(found: KafkaFindings) -> str:
    text = f"{found.promised_pct:.2f} % of the mean"
    if found.highest_pct is None:
        return f"{text}, no interval"
    return f"{text}, at most {found.highest_pct:.2f} with 99.9 % probability"
