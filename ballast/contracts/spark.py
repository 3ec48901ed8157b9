"""Spark settings that all programs share, as text. This module does not import Spark."""

from __future__ import annotations

import logging
from typing import Any

from ballast.contracts.errors import SettingsError
from ballast.contracts.settings import Settings

log = logging.getLogger(__name__)

DELTA_VERSION = "4.4.0"
JARS = (f"delta-spark_4.2_2.13-{DELTA_VERSION}.jar", f"delta-storage-{DELTA_VERSION}.jar")

# A pipeline job runs for seconds. The C1 compiler alone and a serial garbage collector start faster
# than the defaults, which suit programs that run for hours.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Djava.net.preferIPv4Stack=true"
)


def spark_conf(settings: Settings) -> dict[str, str]:
    """The configuration of a session that reads and writes the tables.

    The master is always that of the settings: without one, Spark would run on this machine alone.
    The log store is set because with Delta's default one on local files two JVMs can both write
    the same version (ADR 7).
    """
    conf = {
        "spark.master": settings.spark_master,
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
            "spark.jars": submit_jars(settings),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return conf


def check_master(session_master: str, settings: Settings) -> None:
    """Check that a Spark session runs where the settings say.

    Args:
        session_master: the master of the session, ``spark.sparkContext.master``.
        settings: the settings of this process.

    Raises:
        SettingsError: the session has another master than the settings.
    """
    if _canonical_master(session_master) != _canonical_master(settings.spark_master):
        raise SettingsError(
            f"the Spark session runs on {session_master}, but BALLAST_SPARK_MASTER is "
            f"{settings.spark_master}",
            value=session_master,
            allowed=settings.spark_master,
            remedy=f"set BALLAST_SPARK_MASTER={session_master}, or build the session with the "
            "configuration of ballast.contracts.spark.spark_conf(settings); under Airflow the "
            "connection spark_default must name the same master",
        )


def executors_of(context: Any) -> int | None:
    """Number of executors of a Spark context; None if Spark does not say.

    Args:
        context: the ``SparkContext``. With a local master it is its own executor.
    """
    if context.master.startswith("local"):
        return 1
    try:
        # Spark has no such figure in its Python API. The map also has the driver itself.
        return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
    except Exception as error:  # noqa: BLE001 - py4j has many errors for a context that is gone
        log.debug("the number of executors is unknown: %s", error)
        return None


def _canonical_master(master: str) -> str:
    """The master as Spark writes it: an address of Kubernetes without a scheme gets https."""
    host = master.removeprefix("k8s://")
    if host == master or "://" in host:
        return master
    return f"k8s://https://{host}"


def submit_jars(settings: Settings) -> str:
    """Delta's jars in the form of ``--jars``."""
    return ",".join(str(settings.jars / jar) for jar in JARS)


def submit_conf(settings: Settings) -> dict[str, str]:
    """The configuration of a submitted pipeline job: :func:`spark_conf` and options of the JVM."""
    return spark_conf(settings) | {"spark.driver.extraJavaOptions": SHORT_LIVED_JVM}
