"""Clean the tables that Spark writes, through Spark: DELETE, OPTIMIZE and VACUUM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ballast.contracts.settings import Settings
from spark_jobs.upkeep.expired_rows import ExpiredRows
from spark_jobs.upkeep.maintenance_steps import MaintenanceFailed
from spark_jobs.warehouse.spark_tables import retry_on_conflict

LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def clean(
    spark: SparkSession, settings: Settings, name: str, expired: Sequence[ExpiredRows]
) -> None:
    """Remove expired rows, merge small files, delete files that no version needs."""
    try:
        _clean(spark, settings, name, expired)
    except (PySparkException, Py4JError) as error:
        raise MaintenanceFailed(f"Spark says: {str(error).splitlines()[0]}") from error


def _clean(
    spark: SparkSession, settings: Settings, name: str, expired: Sequence[ExpiredRows]
) -> None:
    table = f"delta.`{settings.table_uri(name)}`"
    for rows in expired:
        delete = f"DELETE FROM {table} WHERE {rows.where}"  # noqa: S608 - made by expired_rows.py alone
        retry_on_conflict(partial(spark.sql, delete))
    retry_on_conflict(partial(spark.sql, f"OPTIMIZE {table}"))
    _vacuum(spark, table)


def _vacuum(spark: SparkSession, table: str) -> None:
    """Run VACUUM with few tasks: it lists files in 10,000 tasks unless this setting says otherwise.

    Without RETAIN, the table's own delta.deletedFileRetentionDuration counts.
    """
    own = spark.newSession()
    own.conf.set(LISTING_TASKS, str(2 * spark.sparkContext.defaultParallelism))
    own.sql(f"VACUUM {table}")
