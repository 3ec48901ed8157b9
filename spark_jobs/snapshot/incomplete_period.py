"""The error of a period with too few complete windows: what is missing, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy
from spark_jobs.snapshot.message_text import MOST_NAMES, number_ranges, shortened_list, utc_text
from spark_jobs.snapshot.node_states import NodeStatus
from spark_jobs.snapshot.statistics_period import StatisticsPeriod
from spark_jobs.snapshot.window_rows import GROUP, in_windows
from spark_jobs.snapshot.window_selection import SelectedWindows, WindowSummary, windows_needed


@dataclass(frozen=True)
class MissingKeyGroups:
    """Key groups of one operator that did not report in some window."""

    operator_id: str
    first: tuple[int, ...]
    total: int
    of: int
    """Number of key groups that were expected of the operator."""

    def __str__(self) -> str:
        # ``first`` is cut at a number of key groups; the total says how many there are.
        shown = ", ".join(number_ranges(self.first)[:MOST_NAMES])
        more = "" if len(self.first) == self.total else ", ..."
        return f"{self.operator_id} {shown}{more} ({self.total} of {self.of})"


@dataclass(frozen=True)
class IncompletePeriod:
    """A period with fewer usable windows than the policy needs."""

    policy: JobPolicy
    period: StatisticsPeriod
    version: int
    """The plan version in force."""
    windows: Sequence[WindowSummary]
    """All windows of the period."""
    selected: SelectedWindows
    missing: Sequence[MissingKeyGroups]
    states: Sequence[NodeStatus]

    def error(self) -> GateFailed:
        """The error that names what is missing where, and when enough windows will be there."""
        period = self.period
        needed = windows_needed(self.policy, self.policy.thresholds.complete_windows_share)
        usable = [window.end_at for window in self.selected.usable]
        since = min(end for end in period.ends if end not in usable)
        return GateFailed(
            f"job {self.policy.job}: {len(usable)} of the {period.windows} windows up to "
            f"{utc_text(period.end)} are complete, {needed} are needed; missing since the window "
            f"that ends at {utc_text(since)}: {'; '.join(self._missing())}. If every window from "
            f"now on is complete, the gate opens at {utc_text(enough_at(period, usable, needed))}"
        )

    def _missing(self) -> list[str]:
        parts = [f"key groups of {shortened_list([str(m) for m in self.missing])}"]
        parts = (parts if self.missing else []) + self._silent_nodes()
        empty = [utc_text(window.end_at) for window in self.windows if not window.key_groups]
        if empty:
            ends = shortened_list(empty)
            parts.append(f"{len(empty)} windows altogether, the ones that end at {ends}")
        mixed = len(self.selected.complete) - len(self.selected.usable)
        if mixed:
            parts.append(
                f"{mixed} windows that did not run wholly under version {self.version}, so they "
                "measured another placement"
            )
        return parts

    def _silent_nodes(self) -> list[str]:
        ends = [window.end_at for window in self.windows if window.key_groups]
        silent = {
            state.node.id: sum(not state.reports_in(end) for end in ends)
            for state in self.states
            if state.state != "dead"
        }
        names = [f"{node} in {windows} windows" for node, windows in silent.items() if windows]
        return [f"nodes {shortened_list(names)}"] if names else []


def enough_at(period: StatisticsPeriod, usable: Sequence[datetime], needed: int) -> datetime:
    """When enough windows will be there if every window from now on is complete."""
    for more in range(1, period.windows):
        still_inside = sum(1 for end in usable if end > period.start + more * period.window)
        if still_inside + more >= needed:
            return period.end + more * period.window
    return period.end + needed * period.window


def expected_groups(spark: SparkSession, policy: JobPolicy) -> DataFrame:
    """Every key group of the policy."""
    sizes = [(operator.id, operator.key_groups) for operator in policy.operators]
    return spark.createDataFrame(sizes, "operator_id STRING, size BIGINT").select(
        "operator_id", fn.explode(fn.sequence(fn.lit(0), fn.col("size") - 1)).alias("key_group")
    )


def missing_groups(
    expected: DataFrame, good: DataFrame, incomplete: Sequence[datetime]
) -> list[MissingKeyGroups]:
    """The key groups that did not report in at least one of the windows, by operator."""
    if not incomplete:
        return []
    reported = in_windows(good, incomplete).groupBy(*GROUP).count()
    absent = expected.join(reported, list(GROUP), "left").where(
        fn.coalesce("count", fn.lit(0)) < len(incomplete)
    )
    first = fn.slice(fn.sort_array(fn.collect_set("key_group")), 1, 4 * MOST_NAMES)
    rows = absent.groupBy("operator_id").agg(first.alias("first"), fn.count("*").alias("total"))
    sizes = expected.groupBy("operator_id").agg(fn.count("*").alias("size"))
    return [
        MissingKeyGroups(row["operator_id"], tuple(row["first"]), row["total"], row["size"])
        for row in rows.join(sizes, "operator_id").orderBy("operator_id").collect()
    ]
