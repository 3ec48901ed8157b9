"""Spark settings that all programs share, as text. This module does not import Spark."""

from __future__ import annotations

from ballast.contracts.settings import Settings

DELTA_VERSION = "4.4.0"
JARS = (f"delta-spark_4.2_2.13-{DELTA_VERSION}.jar", f"delta-storage-{DELTA_VERSION}.jar")

# A pipeline job runs for seconds. The C1 compiler alone and a serial garbage collector start faster
# than the defaults, which suit programs that run for hours.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Djava.net.preferIPv4Stack=true"
)


def spark_conf(settings: Settings) -> dict[str, str]:
    """The configuration of a session that reads and writes the tables.

    The log store is set because with Delta's default one on local files two JVMs can both write
    the same version (ADR 7).
    """
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.delta.logStore.file.impl": "io.delta.storage.HDFSLogStore",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(settings.home / "spark-warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if settings.is_local_spark():
        conf |= {
            "spark.master": settings.spark_master,
            "spark.jars": submit_jars(settings),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return conf


def submit_jars(settings: Settings) -> str:
    """Delta's jars in the form of ``--jars``."""
    return ",".join(str(settings.jars / jar) for jar in JARS)


def submit_conf(settings: Settings) -> dict[str, str]:
    """The configuration of a submitted pipeline job: :func:`spark_conf` and options of the JVM."""
    return spark_conf(settings) | {"spark.driver.extraJavaOptions": SHORT_LIVED_JVM}
