"""Spark settings that every part shares, as plain text: no Spark is imported here."""

from __future__ import annotations

from ballast.contracts.settings import Settings

DELTA_VERSION = "4.4.0"
JARS = (f"delta-spark_4.2_2.13-{DELTA_VERSION}.jar", f"delta-storage-{DELTA_VERSION}.jar")

# A pipeline job lives for seconds: compiling with C1 alone and collecting garbage in one thread
# start faster than the defaults, which are made for programs that run for hours.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Djava.net.preferIPv4Stack=true"


def spark_conf(settings: Settings) -> dict[str, str]:
    """Configuration of a session that reads and writes our tables.

    The log store is set because Delta's default one on local files lets two JVMs both believe
    that they wrote the same version; HDFSLogStore does not (docs/adr/0007).
    """
    conf = {
        "spark.master": settings.spark_master,
        "spark.jars": ",".join(str(settings.jars / jar) for jar in JARS),
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
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    if not settings.is_local_spark():
        for key in ("spark.driver.host", "spark.driver.bindAddress", "spark.jars"):
            del conf[key]
    return conf
