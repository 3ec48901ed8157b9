"""A fresh warehouse with every table, for programs that need no JVM."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.store.table_schema import ensure_tables


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables without rows, which tests copy: making them takes longer than most tests."""
    settings = load_settings({"BALLAST_HOME": str(tmp_path_factory.mktemp("empty"))})
    ensure_tables(settings)
    return Path(settings.warehouse)


@pytest.fixture
def settings(tmp_path: Path, empty_warehouse: Path) -> Settings:
    """A warehouse of the test's own."""
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    shutil.copytree(empty_warehouse, settings.warehouse)
    return settings
