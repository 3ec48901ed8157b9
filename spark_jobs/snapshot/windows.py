"""Which windows are complete, and what is missing where too few are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy
from spark_jobs.snapshot.messages import MOST_NAMES, iso, ranges, some
from spark_jobs.snapshot.node_states import NodeState
from spark_jobs.snapshot.request import Period
from spark_jobs.snapshot.window_selection import WindowSummary, windows_needed

GROUP = ("operator_id", "key_group")


@dataclass(frozen=True)
class Missing:
    """Key groups of one operator that did not report in some window."""

    operator_id: str
    first: tuple[int, ...]
    total: int
    of: int
    """How many key groups were expected of the operator."""

    def __str__(self) -> str:
        # The list is cut at a number of key groups, so what is cut is told by the total.
        shown = ", ".join(ranges(self.first)[:MOST_NAMES])
        more = "" if len(self.first) == self.total else ", ..."
        return f"{self.operator_id} {shown}{more} ({self.total} of {self.of})"


def expected_groups(spark: SparkSession, policy: JobPolicy) -> DataFrame:
    """Every key group of the policy."""
    sizes = [(operator.id, operator.key_groups) for operator in policy.operators]
    return spark.createDataFrame(sizes, "operator_id STRING, size BIGINT").select(
        "operator_id", fn.explode(fn.sequence(fn.lit(0), fn.col("size") - 1)).alias("key_group")
    )


def window_summaries(key_groups: DataFrame) -> dict[datetime, WindowSummary]:
    """What key groups reported in each window of the rows, by the window's end."""
    summaries = key_groups.groupBy("window_end_at").agg(
        fn.count("*").alias("key_groups"),
        fn.min("plan_version").alias("lowest_version"),
        fn.max("plan_version").alias("highest_version"),
        fn.min("first_batch_id").alias("first_batch_id"),
        fn.max("last_batch_id").alias("last_batch_id"),
    )
    # Through Arrow, which returns times in UTC whatever the time zone of this machine is.
    return {
        row["window_end_at"]: WindowSummary(end_at=row.pop("window_end_at"), **row)
        for row in summaries.toArrow().to_pylist()
    }


def period_windows(
    key_groups: DataFrame, period: Period, states: Sequence[NodeState]
) -> list[WindowSummary]:
    """A summary of every window of the period, oldest first; empty for a window without rows."""
    reported = window_summaries(in_period(key_groups, period))
    return [
        replace(reported.get(end, WindowSummary(end)), silent_nodes=_silent_nodes(states, end))
        for end in period.ends
    ]


def _silent_nodes(states: Sequence[NodeState], end: datetime) -> int:
    return sum(not state.speaks_in(end) for state in states if state.state != "dead")


def in_period(frame: DataFrame, period: Period) -> DataFrame:
    """Rows of the period's windows."""
    end = fn.col("window_end_at")
    return frame.where((end > fn.lit(period.start)) & (end <= fn.lit(period.end)))


def in_windows(frame: DataFrame, ends: Sequence[datetime]) -> DataFrame:
    """Rows of the windows with these ends."""
    return frame.where(fn.col("window_end_at").isin([fn.lit(end) for end in ends]))


def enough_at(period: Period, complete: Sequence[datetime], needed: int) -> datetime:
    """When enough windows will be there if every window from now on is complete."""
    for more in range(1, period.windows):
        kept = sum(1 for end in complete if end > period.start + more * period.window)
        if kept + more >= needed:
            return period.end + more * period.window
    return period.end + needed * period.window


def missing_groups(
    expected: DataFrame, good: DataFrame, incomplete: Sequence[datetime]
) -> list[Missing]:
    """The key groups that did not report in at least one of the windows, by operator."""
    heard = in_windows(good, incomplete).groupBy(*GROUP).count()
    absent = expected.join(heard, list(GROUP), "left").where(
        fn.coalesce("count", fn.lit(0)) < len(incomplete)
    )
    first = fn.slice(fn.sort_array(fn.collect_set("key_group")), 1, 4 * MOST_NAMES)
    rows = absent.groupBy("operator_id").agg(first.alias("first"), fn.count("*").alias("total"))
    sizes = expected.groupBy("operator_id").agg(fn.count("*").alias("size"))
    return [
        Missing(row["operator_id"], tuple(row["first"]), row["total"], row["size"])
        for row in rows.join(sizes, "operator_id").orderBy("operator_id").collect()
    ]


def incomplete_period(
    policy: JobPolicy,
    period: Period,
    complete: Sequence[datetime],
    groups: Mapping[datetime, int],
    missing: Sequence[Missing],
    states: Sequence[NodeState],
    mixed: int = 0,
    version: int = 0,
) -> GateFailed:
    """The failed gate: what is missing where, and when enough will be there.

    ``mixed`` windows are whole but did not run wholly under the version in force.
    """
    needed = windows_needed(policy, policy.thresholds.complete_windows_share)
    absent = [end for end in period.ends if not groups[end]]
    parts = [f"key groups of {some([str(m) for m in missing])}"] if missing else []
    parts += _quiet_nodes(period, groups, states)
    if absent:
        parts.append(f"{len(absent)} windows altogether, the ones that end at "
                     f"{some([iso(end) for end in absent])}")  # fmt: skip
    if mixed:
        parts.append(f"{mixed} windows that did not run wholly under version {version}, for what "
                     "they measured is of another placement")  # fmt: skip
    since = min(end for end in period.ends if end not in complete)
    return GateFailed(
        f"job {policy.job}: {len(complete)} of the {period.windows} windows up to "
        f"{iso(period.end)} are complete, {needed} are needed; missing since the window that ends "
        f"at {iso(since)}: {'; '.join(parts)}. If every window from now on is complete, the gate "
        f"opens at {iso(enough_at(period, complete, needed))}"
    )


def _quiet_nodes(
    period: Period, groups: Mapping[datetime, int], states: Sequence[NodeState]
) -> list[str]:
    ends = [end for end in period.ends if groups[end]]
    quiet = {
        state.node.id: sum(not state.speaks_in(end) for end in ends)
        for state in states
        if state.state != "dead"
    }
    names = [f"{node} in {windows} windows" for node, windows in quiet.items() if windows]
    return [f"nodes {some(names)}"] if names else []


def micros(time: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return round(time.timestamp() * 1_000_000)
