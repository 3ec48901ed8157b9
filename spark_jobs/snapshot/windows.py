"""Which windows are complete, and what is missing where too few are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy
from spark_jobs.snapshot.messages import MOST_NAMES, iso, ranges, some
from spark_jobs.snapshot.node_states import NodeState
from spark_jobs.snapshot.request import Period

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


@dataclass(frozen=True)
class Heard:
    """What the key groups of a window said."""

    groups: int = 0
    """How many reported."""
    lowest_version: int | None = None
    highest_version: int | None = None
    """In force at the window's end: one and the same, unless rows contradict each other."""
    first_batch: int | None = None
    last_batch: int | None = None
    """None where the window covers no batch."""

    def is_of(self, version: int) -> bool:
        """Whether every key group names the version."""
        return self.lowest_version == self.highest_version == version


def heard_in_windows(good: DataFrame, period: Period) -> dict[datetime, Heard]:
    """What was heard of key groups in each window of the period, oldest first."""
    said = in_period(good, period).groupBy(fn.unix_micros("window_end_at").alias("end")).agg(
        fn.count("*"), fn.min("plan_version"), fn.max("plan_version"),
        fn.min("first_batch_id"), fn.max("last_batch_id"),
    )  # fmt: skip
    by_micros = {row["end"]: Heard(*row[1:]) for row in said.collect()}
    return {end: by_micros.get(micros(end), Heard()) for end in period.ends}


def under_version(
    heard: Mapping[datetime, Heard], version: int, applied_batch: int | None
) -> frozenset[datetime]:
    """Windows that ran wholly under a version.

    A window names the version in force at its end, and batches before the one that took it up ran
    under another: loads, traffic and pairs of keys were those of another placement. That can be of
    the first window of a version alone. Where the job has not said which batch it was, or has
    numbered its batches anew since, a first window after others is not believed.
    """
    ends = [end for end, said in heard.items() if said.is_of(version)]
    if not ends:
        return frozenset()
    first = heard[ends[0]].first_batch
    newest = max(heard[end].last_batch or 0 for end in ends)
    # The version is in force, so its batch has come: where no number has reached it, numbers say
    # nothing. Believed, they would cost a job that numbers anew a window of every period.
    if applied_batch is None or newest < applied_batch:
        is_mixed = any(said.groups for end, said in heard.items() if end < ends[0])
    else:
        is_mixed = first is not None and first < applied_batch
    return frozenset(ends[1:] if is_mixed else ends)


def in_period(frame: DataFrame, period: Period) -> DataFrame:
    """Rows of the period's windows."""
    end = fn.col("window_end_at")
    return frame.where((end > fn.lit(period.start)) & (end <= fn.lit(period.end)))


def in_windows(frame: DataFrame, ends: Sequence[datetime]) -> DataFrame:
    """Rows of the windows with these ends."""
    return frame.where(fn.col("window_end_at").isin([fn.lit(end) for end in ends]))


def complete_windows(
    period: Period, groups: Mapping[datetime, int], expected: int, states: Sequence[NodeState]
) -> list[datetime]:
    """Windows in which every expected key group and every node that is not dead reported."""
    speaking = [state for state in states if state.state != "dead"]
    return [
        end
        for end in period.ends
        if groups[end] == expected and all(state.speaks_in(end) for state in speaking)
    ]


def windows_needed(policy: JobPolicy) -> int:
    """How many complete windows a snapshot needs."""
    share = policy.thresholds.complete_windows_share * policy.windows_per_period
    return max(1, math.ceil(share - 1e-9))


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
    needed = windows_needed(policy)
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
