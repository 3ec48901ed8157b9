"""What scaling is decided from: load series that reach back to the last round, and sources.

A series is cut into steps of whole windows, so that all key groups together never have more rows
than one machine takes easily, however many there are and however long ago the last round was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from spark_jobs.snapshot.request import Period, Row
from spark_jobs.snapshot.windows import GROUP, in_windows, micros

MOST_STEPS = 240
MOST_ROWS = 2_000_000


@dataclass(frozen=True)
class Reach:
    """From when on the series is read, and how many windows make a step."""

    since: datetime
    until: datetime
    step_windows: int
    window_s: float

    @property
    def step_micros(self) -> int:
        return round(self.step_windows * self.window_s * 1_000_000)


def reach_of(policy: JobPolicy, period: Period, previous: Row | None) -> Reach:
    """Back to the last round, but no further than rounds lie apart; at least the period."""
    interval = timedelta(seconds=policy.scaling.interval_s if policy.scaling else 0.0)
    gap = interval if previous is None else period.end - previous["period_end_at"]
    windows = max(period.windows, math.ceil(min(gap, interval) / period.window - 1e-9))
    groups = sum(operator.key_groups for operator in policy.operators)
    steps = max(1, min(MOST_STEPS, MOST_ROWS // groups))
    return Reach(period.back(windows), period.end, math.ceil(windows / steps), policy.window_s)


def load_series(good: DataFrame, expected: int, reach: Reach) -> DataFrame:
    """Mean loads of each key group in each step, over the windows in which all of them reported."""
    end = fn.col("window_end_at")
    rows = good.where((end > fn.lit(reach.since)) & (end <= fn.lit(reach.until)))
    whole = rows.groupBy("window_end_at").count().where(fn.col("count") == expected)
    # Ends of windows: the last of a step belongs to it.
    offset = fn.unix_micros("window_end_at") - fn.lit(micros(reach.since)) - 1
    step = fn.floor(offset / fn.lit(reach.step_micros)).cast("long")
    seconds = fn.count("*") * fn.lit(reach.window_s)
    network = fn.sum(fn.col("bytes_in") + fn.col("bytes_out"))
    return (
        rows.join(fn.broadcast(whole.select("window_end_at")), "window_end_at", "left_semi")
        .withColumn("step", step)
        .groupBy(*GROUP, "step")
        .agg(
            fn.max("window_end_at").alias("step_end_at"),
            seconds.alias("step_s"),
            (fn.sum("cpu_ms") / 1000 / seconds).alias("cpu_load_cores"),
            (fn.sum("busy_ms") / 1000 / seconds).alias("busy_load_cores"),
            fn.max_by("state_bytes", "window_end_at").cast("double").alias("memory_load_bytes"),
            (network / seconds).alias("network_load_bytes_per_s"),
            (fn.sum("records") / seconds).alias("records_per_s"),
        )
    )


def source_rates(good: DataFrame, windows: Sequence[datetime], window_s: float) -> DataFrame:
    """What arrived at each source a second, and what waited last; NULL where nobody said it."""
    return (
        in_windows(good, windows)
        .groupBy("source_id", "operator_id")
        .agg(
            (fn.avg("arrived_records") / fn.lit(window_s)).alias("arrival_records_per_s"),
            fn.max_by("backlog_records", "window_end_at").alias("backlog_records"),
            fn.count("*").alias("windows"),
        )
    )
