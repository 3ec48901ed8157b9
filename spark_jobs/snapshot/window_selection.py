"""Which windows of metrics count, for snapshots and for outcomes (ADR 28).

A window counts if every expected key group and node reported in it and if it ran wholly under one
plan version. ``condense`` and ``measure`` summarise and select windows with this module alone: the
rows of a window are counted on Spark, the windows are selected by pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from solvers.noise.noise_estimate import FEWEST_WINDOWS
from spark_jobs.snapshot.node_states import NodeStatus, silent_nodes
from spark_jobs.snapshot.statistics_period import StatisticsPeriod
from spark_jobs.snapshot.window_rows import in_period

MEASURED_SHARE = 0.5
"""Share of a statistics period that has to be there before a plan is measured."""


@dataclass(frozen=True)
class WindowSummary:
    """What key groups and nodes reported in one window."""

    end_at: datetime
    key_groups: int = 0
    """Number of key groups that reported."""
    silent_nodes: int = 0
    """Number of nodes that were expected to report and did not."""
    lowest_version: int | None = None
    highest_version: int | None = None
    """Plan version in force at the window's end; both are equal unless rows contradict."""
    first_batch_id: int | None = None
    last_batch_id: int | None = None
    """None if the window covers no batch."""
    has_load: bool = False
    """Whether any key group had records or used CPU."""

    def is_under(self, version: int) -> bool:
        """Whether every key group names the version."""
        return self.lowest_version == self.highest_version == version


@dataclass(frozen=True)
class TakeUp:
    """When a streaming job took up a plan version."""

    version: int
    batch_id: int | None
    """The first batch under the whole version, after the last step; None if the job has not
    acknowledged it."""


@dataclass(frozen=True)
class SelectedWindows:
    """The complete windows, and those of them that count."""

    complete: tuple[WindowSummary, ...]
    """Every expected key group and node reported."""
    usable: tuple[WindowSummary, ...]
    """Complete, and wholly under the version."""


def window_summaries(key_groups: DataFrame) -> dict[datetime, WindowSummary]:
    """What key groups reported in each window of the rows, by the window's end."""
    summaries = key_groups.groupBy("window_end_at").agg(
        fn.count("*").alias("key_groups"),
        fn.min("plan_version").alias("lowest_version"),
        fn.max("plan_version").alias("highest_version"),
        fn.min("first_batch_id").alias("first_batch_id"),
        fn.max("last_batch_id").alias("last_batch_id"),
        fn.coalesce(fn.max((fn.col("cpu_ms") > 0) | (fn.col("records") > 0)), fn.lit(False)).alias(
            "has_load"
        ),
    )
    # Through Arrow, which returns times in UTC whatever the time zone of this machine is.
    return {
        row["window_end_at"]: WindowSummary(end_at=row.pop("window_end_at"), **row)
        for row in summaries.toArrow().to_pylist()
    }


def period_windows(
    key_groups: DataFrame, period: StatisticsPeriod, states: Sequence[NodeStatus]
) -> list[WindowSummary]:
    """A summary of every window of the period, oldest first; empty for a window without rows."""
    reported = window_summaries(in_period(key_groups, period))
    return [
        replace(reported.get(end, WindowSummary(end)), silent_nodes=silent_nodes(states, end))
        for end in period.ends
    ]


def measured_windows(
    key_groups: DataFrame, nodes: DataFrame, staying: Sequence[str]
) -> list[WindowSummary]:
    """A summary of every window of the rows, in no order; ``staying`` are the expected nodes."""
    reported = nodes.where(fn.col("node_id").isin(list(staying))).groupBy("window_end_at").count()
    counts = {row["window_end_at"]: row["count"] for row in reported.toArrow().to_pylist()}
    return [
        replace(window, silent_nodes=len(staying) - counts.get(end, 0))
        for end, window in window_summaries(key_groups).items()
    ]


def select_windows(
    windows: Sequence[WindowSummary], expected_key_groups: int, take_up: TakeUp
) -> SelectedWindows:
    """The windows that count, oldest first.

    Args:
        windows: all windows of the period in any order, also those of other versions: they show
            where the version begins.
        expected_key_groups: number of key groups that a complete window has.
        take_up: the version, and the batch that took it up.
    """
    in_order = sorted(windows, key=lambda window: window.end_at)
    complete = tuple(
        window
        for window in in_order
        if window.key_groups == expected_key_groups and window.silent_nodes == 0
    )
    under = {window.end_at for window in windows_under_version(in_order, take_up)}
    return SelectedWindows(complete, tuple(w for w in complete if w.end_at in under))


def windows_under_version(windows: Sequence[WindowSummary], take_up: TakeUp) -> list[WindowSummary]:
    """The windows, given oldest first, that ran wholly under a version.

    A window names the version in force at its end. Batches before the one that took the version
    up ran under another version, or between two steps of its take-up, with other loads and other
    traffic. The first windows of a version can contain them, and are left out if they do. If there
    were steps, that is every window up to the last one with a batch from before the last step.
    """
    under = [window for window in windows if window.is_under(take_up.version)]
    if not under:
        return []
    is_after_others = any(w.key_groups for w in windows if w.end_at < under[0].end_at)
    return under[_mixed_windows(under, take_up.batch_id, is_after_others=is_after_others) :]


def _mixed_windows(
    under: Sequence[WindowSummary], applied_batch_id: int | None, *, is_after_others: bool
) -> int:
    """How many of the first windows of a version may contain batches of another placement.

    The version is in force, so the batch that took it up has come. If no window reaches its
    number, the job has renumbered its batches since, and the numbers prove nothing. Without
    usable numbers the first window is mixed if other windows came before it. A window at the
    start of the period is not: otherwise a renumbered job would lose one window of every period.
    """
    newest = max(window.last_batch_id or 0 for window in under)
    if applied_batch_id is None or newest < applied_batch_id:
        return int(is_after_others)
    mixed = int(is_after_others and under[0].first_batch_id is None)
    for number, window in enumerate(under, start=1):
        if window.first_batch_id is not None and window.first_batch_id < applied_batch_id:
            mixed = number
    return mixed


def windows_needed(policy: JobPolicy, share: float) -> int:
    """The number of windows that make up a share of the statistics period, at least one."""
    return max(1, math.ceil(share * policy.windows_per_period - 1e-9))


def usable_windows(
    policy: JobPolicy, windows: Sequence[WindowSummary], take_up: TakeUp
) -> tuple[WindowSummary, ...]:
    """The latest windows that count, oldest first, at most one statistics period."""
    expected = sum(operator.key_groups for operator in policy.operators)
    return select_windows(windows, expected, take_up).usable[-policy.windows_per_period :]


def windows_to_measure(policy: JobPolicy) -> int:
    """The fewest windows that a measurement may use: half a statistics period."""
    return windows_needed(policy, MEASURED_SHARE)


def busy_windows_to_measure(policy: JobPolicy) -> int:
    """The fewest windows with load that a measurement may use."""
    return min(FEWEST_WINDOWS, windows_to_measure(policy))


def measurable_at(
    policy: JobPolicy, usable: Sequence[WindowSummary], applied_at: datetime, now: datetime
) -> datetime:
    """When enough windows will be there if every window from now on is complete."""
    missing = windows_to_measure(policy) - len(usable)
    last = usable[-1].end_at if usable else applied_at
    return max(last, now) + timedelta(seconds=policy.window_s * missing)
