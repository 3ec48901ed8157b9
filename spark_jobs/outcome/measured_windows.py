"""Windows, loads and traffic under one plan version, as ``condense`` would see them.

Good rows, loads and rates are defined by ``spark_jobs.snapshot``: what is measured is what was
planned with.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from expectations.policy_rules import checked_table
from spark_jobs.outcome.figures import Window
from spark_jobs.snapshot.row_checks import is_good, with_facts, with_reasons
from spark_jobs.warehouse.spark_tables import read_table

WINDOW = ("window_start_at", "window_end_at")


@dataclass(frozen=True)
class Span:
    """The rows that are looked at: one job's under one version, in windows within two times."""

    policy: JobPolicy
    version: int
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
        & (fn.col("plan_version") == span.version)
    )
    return with_reasons(with_facts(rows, checked), checked).where(is_good())


def windows_of(key_groups: DataFrame, nodes: DataFrame, staying: list[str]) -> list[Window]:
    """Every window of the rows, with how many key groups and staying nodes it heard from."""
    heard = key_groups.groupBy(*WINDOW).agg(
        fn.min("first_batch_id").alias("first_batch_id"), fn.count("*").alias("key_groups")
    )
    alive = nodes.where(fn.col("node_id").isin(staying)).groupBy(*WINDOW)
    counted = heard.join(alive.agg(fn.count("*").alias("nodes")), list(WINDOW))
    # Through Arrow, which hands times over in UTC whatever zone this machine is in.
    return [Window(*row.values()) for row in counted.toArrow().to_pylist()]
