"""Mean loads of key groups and mean rates of traffic over windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.snapshot.window_rows import GROUP, in_windows

ENDS = ("from_operator_id", "from_key_group", "to_operator_id", "to_key_group")
LOADS = (
    *GROUP, "node_id", "cpu_load_cores", "wire_load_cores", "memory_load_bytes",
    "network_load_bytes_per_s", "records_per_s", "state_bytes",
)  # fmt: skip
"""The columns of snapshots.key_groups that say where a key group is and what its load is."""


def key_group_loads(
    good: DataFrame, windows: Sequence[datetime], window_s: float, *more: Column
) -> DataFrame:
    """Mean load of each key group over the windows; node and state as of the newest of them.

    ``more`` are further aggregates; they follow the columns ``LOADS``.
    """
    seconds = fn.lit(len(windows) * window_s)
    return in_windows(good, windows).groupBy(*GROUP).agg(*load_columns(seconds), *more)


def traffic_rates(
    good: DataFrame, windows: Sequence[datetime], window_s: float, *more: Column
) -> DataFrame:
    """Mean rates between key groups over the windows; a pair without rows sent nothing.

    ``more`` are further aggregates.
    """
    seconds = fn.lit(len(windows) * window_s)
    return (
        in_windows(good, windows)
        .groupBy(*ENDS)
        .agg(
            (fn.sum("records") / seconds).alias("records_per_s"),
            (fn.sum("bytes") / seconds).alias("bytes_per_s"),
            *more,
        )
    )


def load_columns(seconds: Column) -> list[Column]:
    """Aggregates of a key group's rows: mean loads over a time; newest node and state."""
    state = fn.max_by("state_bytes", "window_end_at")
    network = fn.sum(fn.col("bytes_in") + fn.col("bytes_out"))
    return [
        fn.max_by("node_id", "window_end_at").alias("node_id"),
        (fn.sum("cpu_ms") / 1000 / seconds).alias("cpu_load_cores"),
        # NULL in rows that a job of an earlier version wrote.
        (fn.coalesce(fn.sum("wire_ms"), fn.lit(0.0)) / 1000 / seconds).alias("wire_load_cores"),
        state.cast("double").alias("memory_load_bytes"),
        (network / seconds).alias("network_load_bytes_per_s"),
        (fn.sum("records") / seconds).alias("records_per_s"),
        state.alias("state_bytes"),
    ]
