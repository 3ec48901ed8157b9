"""One Spark session for all tests that need one, and a fresh warehouse for each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.spark import SHORT_LIVED_JVM
from ballast.store.table_schema import ensure_tables
from spark_jobs.program.session import build_session

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def base_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with the project's jars and a temporary home."""
    settings = load_settings({"BALLAST_HOME": str(tmp_path_factory.mktemp("home"))})
    return replace(settings, jars=ROOT / ".ballast" / "jars")


@pytest.fixture(scope="session")
def spark(base_settings: Settings) -> Iterator[SparkSession]:
    """A session with the pipeline's configuration; its driver starts fast and needs no network."""
    # The JVM's options must be set before it starts, so they are set for pyspark's launcher.
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "{SHORT_LIVED_JVM}" pyspark-shell'
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = build_session(base_settings, "tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def make_settings(
    base_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Settings]:
    """Return a function that makes a warehouse with every table, and an empty folder of
    policies."""

    def make() -> Settings:
        folder = tmp_path_factory.mktemp("warehouse")
        (folder / "policies").mkdir()
        fresh = replace(
            base_settings, warehouse=str(folder / "warehouse"), policies=folder / "policies"
        )
        ensure_tables(fresh)
        return fresh

    return make


@pytest.fixture
def settings(make_settings: Callable[[], Settings]) -> Settings:
    """A warehouse of the test's own."""
    return make_settings()
