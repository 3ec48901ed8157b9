"""Tidy the tables that Spark writes, through Spark: OPTIMIZE, DELETE and VACUUM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ballast.contracts.settings import Settings
from spark_jobs.upkeep.expiry import Expired
from spark_jobs.upkeep.steps import MaintenanceFailed
from spark_jobs.warehouse.spark_tables import on_conflict_again

LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def tidy(spark: SparkSession, settings: Settings, name: str, expired: Sequence[Expired]) -> None:
    """Remove what has expired, make few files of many, delete what no version needs."""
    try:
        _tidy(spark, settings, name, expired)
    except (PySparkException, Py4JError) as error:
        raise MaintenanceFailed(f"Spark says: {str(error).splitlines()[0]}") from error


def _tidy(spark: SparkSession, settings: Settings, name: str, expired: Sequence[Expired]) -> None:
    table = f"delta.`{settings.table_uri(name)}`"
    for rows in expired:
        delete = f"DELETE FROM {table} WHERE {rows.where}"  # noqa: S608 - made by expiry.py alone
        on_conflict_again(partial(spark.sql, delete))
    on_conflict_again(partial(spark.sql, f"OPTIMIZE {table}"))
    _vacuum(spark, table)


def _vacuum(spark: SparkSession, table: str) -> None:
    """VACUUM lists files in as many tasks as this setting says, 10,000 unless it is set.

    Without RETAIN: the table's own delta.deletedFileRetentionDuration counts.
    """
    own = spark.newSession()
    own.conf.set(LISTING_TASKS, str(2 * spark.sparkContext.defaultParallelism))
    own.sql(f"VACUUM {table}")
