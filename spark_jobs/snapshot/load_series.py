"""The input of scaling decisions: load series back to the last round, and rates of sources.

A series is cut into steps of whole windows. The length of a step grows with the number of key
groups and with the time since the last round, so that the rows fit on one machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Snapshot
from spark_jobs.snapshot.statistics_period import StatisticsPeriod
from spark_jobs.snapshot.window_rows import GROUP, in_windows, micros

MOST_STEPS = 240
MOST_ROWS = 2_000_000


@dataclass(frozen=True)
class SeriesSpan:
    """The time that a series covers, and the number of windows in a step."""

    since: datetime
    until: datetime
    step_windows: int
    window_s: float

    @property
    def step_micros(self) -> int:
        """Length of a step in microseconds."""
        return round(self.step_windows * self.window_s * 1_000_000)


def series_span(
    policy: JobPolicy, period: StatisticsPeriod, previous: Snapshot | None
) -> SeriesSpan:
    """From the last round to the period's end: at least the period, at most one interval."""
    interval = timedelta(seconds=policy.scaling.interval_s if policy.scaling else 0.0)
    gap = interval if previous is None else period.end - previous.period_end_at
    windows = max(period.windows, math.ceil(min(gap, interval) / period.window - 1e-9))
    groups = sum(operator.key_groups for operator in policy.operators)
    steps = max(1, min(MOST_STEPS, MOST_ROWS // groups))
    return SeriesSpan(period.back(windows), period.end, math.ceil(windows / steps), policy.window_s)


def load_series(good: DataFrame, expected: int, span: SeriesSpan) -> DataFrame:
    """Mean loads of each key group in each step.

    Only windows count in which ``expected`` key groups reported.
    """
    end = fn.col("window_end_at")
    rows = good.where((end > fn.lit(span.since)) & (end <= fn.lit(span.until)))
    whole = rows.groupBy("window_end_at").count().where(fn.col("count") == expected)
    # Minus one: a window that ends exactly at the end of a step belongs to that step.
    offset = fn.unix_micros("window_end_at") - fn.lit(micros(span.since)) - 1
    step = fn.floor(offset / fn.lit(span.step_micros)).cast("long")
    seconds = fn.count("*") * fn.lit(span.window_s)
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
    """Arrival rate and newest backlog of each source; NULL if the source reported none."""
    return (
        in_windows(good, windows)
        .groupBy("source_id", "operator_id")
        .agg(
            (fn.avg("arrived_records") / fn.lit(window_s)).alias("arrival_records_per_s"),
            fn.max_by("backlog_records", "window_end_at").alias("backlog_records"),
            fn.count("*").alias("windows"),
        )
    )
