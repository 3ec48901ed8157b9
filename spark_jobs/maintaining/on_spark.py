"""Tidy the tables that Spark writes, through Spark: OPTIMIZE, DELETE and VACUUM."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from ballast.contracts.settings import Settings
from spark_jobs.maintaining.expiry import Expired
from spark_jobs.tables import on_conflict_again


def tidy(spark: SparkSession, settings: Settings, name: str, expired: Sequence[Expired]) -> None:
    """Remove what has expired, make few files of many, delete what no version needs."""
    table = f"delta.`{settings.table_uri(name)}`"
    for rows in expired:
        delete = f"DELETE FROM {table} WHERE {rows.where}"  # noqa: S608 - made by expiry.py alone
        on_conflict_again(lambda delete=delete: spark.sql(delete))
    on_conflict_again(lambda: spark.sql(f"OPTIMIZE {table}"))
    # Without RETAIN: the table's own delta.deletedFileRetentionDuration counts.
    spark.sql(f"VACUUM {table}")
