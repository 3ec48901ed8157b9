"""Loads of key groups, rates of traffic, and the last known loads of key groups on dead nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from ballast.contracts.tables import TABLES
from spark_jobs.condensing.complete import GROUP, in_windows

ENDS = ("from_operator_id", "from_key_group", "to_operator_id", "to_key_group")
LOADS = TABLES["snapshots.key_groups"].column_names[2:]


def key_group_loads(good: DataFrame, windows: Sequence[datetime], window_s: float) -> DataFrame:
    """Mean load of each key group over the windows; node and state as of the newest of them."""
    seconds = fn.lit(len(windows) * window_s)
    return in_windows(good, windows).groupBy(*GROUP).agg(*_loads(seconds)).select(*LOADS)


def last_known_loads(good: DataFrame, period_s: float, window_s: float) -> DataFrame:
    """Each key group's load over the last period in which it reported, wherever that lies."""
    last = fn.max("window_end_at").over(Window.partitionBy(*GROUP))
    recent = good.withColumn("last_at", last).where(
        fn.unix_micros("last_at") - fn.unix_micros("window_end_at") < round(period_s * 1_000_000)
    )
    seconds = fn.count("*") * fn.lit(window_s)
    return recent.groupBy(*GROUP).agg(*_loads(seconds)).select(*LOADS)


def stranded_loads(
    measured: DataFrame, snapshot: DataFrame | None, dead: Collection[str]
) -> DataFrame:
    """Key groups last known on a dead node: by their metrics, else by the newest snapshot.

    Metrics come first: a key group may have moved after the snapshot was taken.
    """
    known = measured
    if snapshot is not None:
        older = snapshot.select(*LOADS).join(measured, list(GROUP), "left_anti")
        known = measured.unionByName(older)
    return known.where(fn.col("node_id").isin(list(dead)))


def traffic_rates(good: DataFrame, windows: Sequence[datetime], window_s: float) -> DataFrame:
    """Mean rates between key groups over the windows; a pair without rows sent nothing."""
    seconds = fn.lit(len(windows) * window_s)
    return (
        in_windows(good, windows)
        .groupBy(*ENDS)
        .agg(
            (fn.sum("records") / seconds).alias("records_per_s"),
            (fn.sum("bytes") / seconds).alias("bytes_per_s"),
        )
    )


def _loads(seconds: Column) -> list[Column]:
    state = fn.max_by("state_bytes", "window_end_at")
    network = fn.sum(fn.col("bytes_in") + fn.col("bytes_out"))
    return [
        fn.max_by("node_id", "window_end_at").alias("node_id"),
        (fn.sum("cpu_ms") / 1000 / seconds).alias("cpu_load_cores"),
        state.cast("double").alias("memory_load_bytes"),
        (network / seconds).alias("network_load_bytes_per_s"),
        (fn.sum("records") / seconds).alias("records_per_s"),
        state.alias("state_bytes"),
    ]
