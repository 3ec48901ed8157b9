"""Summaries of windows: how many key groups and nodes reported in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.snapshot.node_states import NodeStatus, silent_nodes
from spark_jobs.snapshot.statistics_period import StatisticsPeriod
from spark_jobs.snapshot.window_rows import in_period
from spark_jobs.snapshot.window_selection import WindowSummary


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
