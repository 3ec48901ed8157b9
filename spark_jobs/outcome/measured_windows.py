"""The windows that a measurement uses: those that ``condense`` would use after the take-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from spark_jobs.snapshot.window_selection import (
    TakeUp,
    WindowSummary,
    select_windows,
    windows_needed,
)
from spark_jobs.snapshot.window_summaries import window_summaries

# Share of a statistics period that has to be there before a plan is measured.
MEASURED_SHARE = 0.5


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


def usable_windows(
    policy: JobPolicy, windows: Sequence[WindowSummary], take_up: TakeUp
) -> tuple[WindowSummary, ...]:
    """The latest windows that count, oldest first, at most one statistics period."""
    expected = sum(operator.key_groups for operator in policy.operators)
    return select_windows(windows, expected, take_up).usable[-policy.windows_per_period :]


def windows_to_measure(policy: JobPolicy) -> int:
    """The fewest windows that a measurement may use: half a statistics period."""
    return windows_needed(policy, MEASURED_SHARE)


def measurable_at(
    policy: JobPolicy, usable: Sequence[WindowSummary], applied_at: datetime, now: datetime
) -> datetime:
    """When enough windows will be there if every window from now on is complete."""
    missing = windows_to_measure(policy) - len(usable)
    last = usable[-1].end_at if usable else applied_at
    return max(last, now) + timedelta(seconds=policy.window_s * missing)
