"""Key groups that fell silent on dead nodes, with their last known loads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Snapshot
from spark_jobs.snapshot.loads import LOADS, load_columns
from spark_jobs.snapshot.statistics_period import StatisticsPeriod
from spark_jobs.snapshot.window_rows import GROUP

# How far back the last known load is looked for in the metrics if no snapshot has it.
LAST_KNOWN_DAYS = 7


@dataclass(frozen=True)
class KnownLoads:
    """The sources of the load and the place of a key group that is silent now."""

    measured: DataFrame
    """Last known loads by the metrics."""
    snapshot: DataFrame | None
    """Key groups of the newest snapshot; None without a snapshot."""
    planned: DataFrame | None = None
    """Assignment of the plan in force; None before the first plan."""


def last_known_since(period: StatisticsPeriod, previous: Snapshot | None) -> datetime:
    """From when on metrics are read for last known loads; older ones are in the snapshot."""
    since = period.end - timedelta(days=LAST_KNOWN_DAYS)
    return since if previous is None else max(since, previous.period_start_at)


def silent_groups(expected: DataFrame, good: DataFrame, period: StatisticsPeriod) -> DataFrame:
    """The expected key groups that did not report in the period's last window."""
    reporting = good.where(fn.col("window_end_at") == fn.lit(period.end))
    return expected.join(reporting, list(GROUP), "left_anti")


def last_known_loads(good: DataFrame, policy: JobPolicy) -> DataFrame:
    """Each key group's load over the last period in which it reported, however long ago."""
    last = fn.max("window_end_at").over(Window.partitionBy(*GROUP))
    reach = round(policy.statistics_period_s * 1_000_000)
    recent = good.withColumn("last_at", last).where(
        fn.unix_micros("last_at") - fn.unix_micros("window_end_at") < reach
    )
    seconds = fn.count("*") * fn.lit(policy.window_s)
    return recent.groupBy(*GROUP).agg(*load_columns(seconds)).select(*LOADS)


def stranded_loads(known: KnownLoads, dead: Collection[str]) -> DataFrame:
    """Loads of silent key groups on dead nodes.

    Metrics come before the snapshot: a key group may have moved after the snapshot was taken. The
    plan in force decides the node: a node may die before the key groups that were moved to it
    have reported from there.
    """
    loads = known.measured
    if known.snapshot is not None:
        older = known.snapshot.select(*LOADS).join(loads, list(GROUP), "left_anti")
        loads = loads.unionByName(older)
    if known.planned is not None:
        planned = known.planned.select(*GROUP, fn.col("node_id").alias("planned"))
        loads = loads.join(planned, list(GROUP), "left").withColumn(
            "node_id", fn.coalesce("planned", "node_id")
        )
    return loads.select(*LOADS).where(fn.col("node_id").isin(list(dead)))
