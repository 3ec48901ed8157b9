"""The Spark session of a pipeline program."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ballast.contracts.errors import SettingsError
from ballast.contracts.settings import Settings
from ballast.contracts.spark import JARS, check_master, spark_conf


def build_session(settings: Settings, app_name: str) -> SparkSession:
    """A session with Delta; under spark-submit it adds to the settings that were submitted.

    Raises:
        SettingsError: Spark runs on this machine and Delta's jars are missing, or this process
            already has a session on another master than that of the settings.
    """
    missing = [jar for jar in JARS if not (settings.jars / jar).exists()]
    if missing and settings.is_local_spark():
        raise SettingsError(
            f"Delta's jars {', '.join(missing)} are not in {settings.jars}",
            value=str(settings.jars),
            remedy="run `make setup`, or set BALLAST_JARS to the folder that holds them",
        )
    builder = SparkSession.builder.appName(app_name)
    for key, value in spark_conf(settings).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    check_master(session.sparkContext.master, settings)
    session.sparkContext.setLogLevel("ERROR")
    return session
