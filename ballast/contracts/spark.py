"""Spark settings that every part shares, as plain text: no Spark is imported here."""

from __future__ import annotations

from ballast.contracts.settings import Settings

DELTA_VERSION = "4.4.0"
JARS = (f"delta-spark_4.2_2.13-{DELTA_VERSION}.jar", f"delta-storage-{DELTA_VERSION}.jar")

# A pipeline job lives for seconds: compiling with C1 alone and collecting garbage in one thread
# start faster than the defaults, which are made for programs that run for hours.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Djava.net.preferIPv4Stack=true"
)


def spark_conf(settings: Settings) -> dict[str, str]:
    """Configuration of a session that reads and writes our tables.

    The log store is set because Delta's default one on local files lets two JVMs both believe
    that they wrote the same version (docs/adr/0007).
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
    """Delta's jars as ``--jars`` takes them: what is submitted must bring them itself."""
    return ",".join(str(settings.jars / jar) for jar in JARS)


def submit_conf(settings: Settings) -> dict[str, str]:
    """What a spark-submit of a pipeline job adds to :func:`spark_conf`: the JVM's own options."""
    return spark_conf(settings) | {"spark.driver.extraJavaOptions": SHORT_LIVED_JVM}
