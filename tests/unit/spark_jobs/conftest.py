"""A fresh warehouse with every table, for programs that need no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.store.tables import ensure_tables


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A warehouse of the test's own."""
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    ensure_tables(settings)
    return settings
