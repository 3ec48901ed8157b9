"""The Spark session of a pipeline program."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from ballast.contracts.errors import SettingsError
from ballast.contracts.settings import Settings
from ballast.contracts.spark import JARS, check_master, spark_conf

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit sets for the Python program that it runs."""


def build_session(settings: Settings, app_name: str) -> SparkSession:
    """A session with Delta; under spark-submit it adds to the settings that were submitted.

    Raises:
        SettingsError: Spark runs on this machine and Delta's jars are missing, or the program was
            submitted to another master than that of the settings.
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
        # The master that was submitted must stay visible, so that it can be checked.
        if key != "spark.master" or SUBMITTED not in os.environ:
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    check_master(session.sparkContext.master, settings)
    session.sparkContext.setLogLevel("ERROR")
    return session
