"""Filters of metrics rows by job, period and window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.snapshot.statistics_period import StatisticsPeriod

GROUP = ("operator_id", "key_group")
# Delta rounds the largest time of a file up to the next millisecond. Without this step, the file
# of a window that ends exactly at a limit would be read for nothing. Windows are whole
# milliseconds long.
FILE_STATISTICS_STEP = timedelta(milliseconds=1)


def of_job_since(frame: DataFrame, job: str, since: datetime) -> DataFrame:
    """The job's rows of windows that end after a time; partitions and file statistics prune.

    Rows without a time belong to no period, but they are bad rows and must be rejected. There is
    no upper limit for the same reason: a window in the future is a bad row.
    """
    date, end = fn.col("window_date"), fn.col("window_end_at")
    return frame.where(
        (fn.col("job") == job)
        & ((date >= fn.lit(since.date())) | date.isNull())
        & ((end > fn.lit(since + FILE_STATISTICS_STEP)) | end.isNull())
    )


def in_period(frame: DataFrame, period: StatisticsPeriod) -> DataFrame:
    """Rows of the period's windows."""
    end = fn.col("window_end_at")
    return frame.where((end > fn.lit(period.start)) & (end <= fn.lit(period.end)))


def in_windows(frame: DataFrame, ends: Sequence[datetime]) -> DataFrame:
    """Rows of the windows with these ends."""
    return frame.where(fn.col("window_end_at").isin([fn.lit(end) for end in ends]))


def without_groups(frame: DataFrame, groups: DataFrame | None) -> DataFrame:
    """Rows of other key groups than these; all rows if there are none."""
    return frame if groups is None else frame.join(groups, list(GROUP), "left_anti")


def micros(time: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return round(time.timestamp() * 1_000_000)
