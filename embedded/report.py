"""The report of the demonstration, and what it must show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ballast.contracts.promise_side import promise_side
from ballast.contracts.records import Promise
from ballast.contracts.tables import ABOVE, BELOW

LARGEST_SHARE_OF_HASH = 0.5
LARGEST_MISS_OF_FALL = 0.1


@dataclass(frozen=True)
class Traffic:
    """Traffic figures of a joint plan: before it, promised and measured."""

    max_load_distance_pct: float | None
    """None if the policy weighs load against traffic instead."""
    collocation_pct: tuple[float, float, float]
    wire_bytes_per_record: tuple[float, float, float]
    """Per record, because the rate of the input may change."""
    load_index_pct: tuple[float, float]
    """Promised and measured; it was 100 before the plan."""
    routed_keys: int | None = None
    """Keys that the plan routes; None if the policy allows no routes."""

    @property
    def missed_share_of_fall(self) -> float:
        """The missed part of the promised fall of the bytes between nodes, as a share of the fall.

        A plan with routes promises only what the counted pairs of keys prove. Pairs that were too
        rare to be counted may be collocated too, so a larger fall is no miss.
        """
        before, promised, measured = self.wire_bytes_per_record
        if promised >= before:
            return float("inf")
        miss = measured - promised
        return (max(0.0, miss) if self.routed_keys else abs(miss)) / (before - promised)


@dataclass(frozen=True)
class Findings:
    """Figures of one plan, from its promise to its outcome."""

    job: str
    version: int
    plan_id: str
    before_pct: float
    promised: Promise
    """The promised load distance."""
    measured_pct: float
    bound_pct: float
    method: str
    status: str
    moves: int
    moved_key_groups: int
    state_bytes: int
    bytes_moved: int
    pause_ms: float
    batch_id: int
    windows: int
    stage_seconds: Mapping[str, float]
    peak_memory_bytes: int
    sums_equal: bool | None
    """None if the job still runs, so that its sums cannot be compared yet."""
    sums_text: str
    traffic: Traffic | None = None
    """Only for a joint plan."""


def shortcomings(findings: Findings) -> list[str]:
    """What the demonstration must show and did not show; empty is success."""
    problems = []
    if findings.traffic is not None:
        problems += _traffic_shortcomings(findings.traffic)
    elif findings.measured_pct > LARGEST_SHARE_OF_HASH * findings.before_pct:
        problems.append(
            f"measured load distance {findings.measured_pct:.2f} % is more than half of "
            f"{findings.before_pct:.2f} %, that of the placement by hash"
        )
    highest = findings.promised.highest
    if highest is not None and promise_side(findings.measured_pct, 0.0, highest) == ABOVE:
        problems.append(
            f"measured load distance {findings.measured_pct:.2f} % is above {highest:.2f} %, the "
            "end of the promised 99.9 % interval"
        )
    if findings.sums_equal is False:
        problems.append(f"the job's sums are not those of its input: {findings.sums_text}")
    return problems


def promised_text(promise: Promise) -> str:
    """The expected load distance with its 90 % interval."""
    if promise.low is None or promise.high is None:
        return f"{promise.expected:.2f} % of the mean, no interval: {promise.reason}"
    return (
        f"{promise.expected:.2f} % of the mean, {promise.low:.2f} to {promise.high:.2f} with "
        "90 % probability"
    )


def side_text(promise: Promise, measured_pct: float) -> str:
    """Whether the measured load distance is inside of the promised 90 % interval.

    Outside is not a failure: one period of ten is.
    """
    if promise.low is None or promise.high is None:
        return "no interval was promised"
    side = promise_side(measured_pct, promise.low, promise.high)
    if side == ABOVE:
        return f"OUTSIDE, {measured_pct - promise.high:.2f} above the 90 % interval"
    if side == BELOW:
        return f"OUTSIDE, {promise.low - measured_pct:.2f} below the 90 % interval"
    return "inside the 90 % interval"


def _traffic_shortcomings(traffic: Traffic) -> list[str]:
    problems = ["the policy allows routes, and the plan routes no key"] * (traffic.routed_keys == 0)
    before, promised, measured = traffic.wire_bytes_per_record
    if traffic.missed_share_of_fall <= LARGEST_MISS_OF_FALL:
        return problems
    change = f"from {before:.2f} to {measured:.2f} a record, promised {promised:.2f}"
    limit = f"more than {100 * LARGEST_MISS_OF_FALL:g} % of the promised fall missed"
    return [*problems, f"bytes between nodes went {change}: {limit}"]


def report_lines(findings: Findings) -> list[str]:
    """The lines of the final table."""
    rows = [
        ("load distance before (by hash)", f"{findings.before_pct:.2f} % of the mean"),
        ("load distance promised", promised_text(findings.promised)),
        (
            "load distance measured",
            f"{findings.measured_pct:.2f} % of the mean, over {findings.windows} windows",
        ),
        ("promise", side_text(findings.promised, findings.measured_pct)),
        ("proven bound", f"{findings.bound_pct:.2f} % ({findings.method}, {findings.status})"),
        *_traffic_rows(findings.traffic),
        ("moves", f"{findings.moved_key_groups} made, {findings.moves} planned"),
        ("bytes", f"{findings.bytes_moved:,} moved, {findings.state_bytes:,} planned"),
        ("pause", f"{findings.pause_ms:.1f} ms measured"),
        ("version and plan id", f"{findings.version}, {findings.plan_id}"),
        ("taken up at batch", f"{findings.batch_id}"),
        ("sums against the input", findings.sums_text),
        ("seconds of each stage", stages_text(findings.stage_seconds)),
        ("peak memory", f"{findings.peak_memory_bytes / 2**30:.2f} GiB, all processes"),
    ]
    return boxed(f"Job {findings.job}", rows)


def _traffic_rows(traffic: Traffic | None) -> list[tuple[str, str]]:
    if traffic is None:
        return []
    factor, index = traffic.collocation_pct, traffic.load_index_pct
    wire = traffic.wire_bytes_per_record
    missed = f"{100 * traffic.missed_share_of_fall:.1f} % of the fall missed"
    bound = traffic.max_load_distance_pct
    return [
        ("load distance allowed", "by weights" if bound is None else f"{bound:g} % of the mean"),
        (
            "traffic within nodes",
            f"{factor[0]:.1f} % before, {factor[1]:.1f} promised, {factor[2]:.1f} measured",
        ),
        (
            "bytes a record between nodes",
            f"{wire[0]:.2f} before, {wire[1]:.2f} promised, {wire[2]:.2f} measured ({missed})",
        ),
        ("load index", f"{index[0]:.1f} % promised, {index[1]:.1f} measured"),
        *([] if traffic.routed_keys is None else [("keys routed", f"{traffic.routed_keys:,}")]),
    ]


def stages_text(seconds: Mapping[str, float]) -> str:
    """Seconds of each stage, in order."""
    return ", ".join(f"{stage} {value:.0f}" for stage, value in seconds.items())


def boxed(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    """A two-column table with a frame."""
    left = max(len(name) for name, _ in rows)
    right = max(max(len(value) for _, value in rows), len(title) - left - 3)
    rule = f"+{'-' * (left + 2)}+{'-' * (right + 2)}+"
    head = f"| {title.ljust(left + right + 3)} |"
    body = [f"| {name.ljust(left)} | {value.ljust(right)} |" for name, value in rows]
    return [f"+{'-' * (left + right + 5)}+", head, rule, *body, rule]
