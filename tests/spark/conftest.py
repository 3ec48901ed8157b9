"""One Spark session for all tests that need one, and a fresh warehouse for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.spark import SHORT_LIVED_JVM
from ballast.store.tables import ensure_tables

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def base_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The project's jars, and a home that is thrown away."""
    settings = load_settings({"BALLAST_HOME": str(tmp_path_factory.mktemp("home"))})
    return replace(settings, jars=ROOT / ".ballast" / "jars")


@pytest.fixture(scope="session")
def spark(base_settings: Settings) -> Iterator[SparkSession]:
    """A session like the pipeline's own; its driver starts fast and needs no network."""
    from spark_jobs.session import build_session

    # Taken over by build_session: the JVM's options must be there before it starts.
    SparkSession.builder.config("spark.driver.extraJavaOptions", SHORT_LIVED_JVM)
    session = build_session(base_settings, "tests")
    yield session
    session.stop()


@pytest.fixture
def settings(base_settings: Settings, tmp_path: Path) -> Settings:
    """A warehouse of its own with every table, and an empty folder of policies."""
    policies = tmp_path / "policies"
    policies.mkdir()
    fresh = replace(base_settings, warehouse=str(tmp_path / "warehouse"), policies=policies)
    ensure_tables(fresh)
    return fresh
