"""Good rows and windows of metrics around a plan version, as ``condense`` reads them.

Good rows, loads and rates are defined by ``spark_jobs.snapshot``: what is measured is what was
planned with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from expectations.policy_rules import checked_table
from spark_jobs.snapshot.bad_rows import is_good, with_facts, with_reasons
from spark_jobs.snapshot.window_selection import WindowSummary
from spark_jobs.snapshot.window_summaries import window_summaries
from spark_jobs.warehouse.spark_tables import read_table


@dataclass(frozen=True)
class Span:
    """The windows that are read: those of one job between two times, of all versions."""

    policy: JobPolicy
    begin: datetime
    end: datetime


def good_rows(spark: SparkSession, settings: Settings, table: str, span: Span) -> DataFrame:
    """The span's rows that break no limit and no rule of the policy, one a key."""
    checked = checked_table(TABLES[table], span.policy, span.end)
    rows = read_table(spark, settings, table).where(
        (fn.col("job") == span.policy.job)
        # Partitions of other days are not read.
        & fn.col("window_date").between(span.begin.date(), span.end.date())
        & (fn.col("window_start_at") >= fn.lit(span.begin))
        & (fn.col("window_end_at") <= fn.lit(span.end))
    )
    return with_reasons(with_facts(rows, checked), checked).where(is_good())


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
