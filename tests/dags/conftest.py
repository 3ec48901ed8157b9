"""Airflow for DAG tests: a home of its own, no examples, set before Airflow is first imported."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_HOME = tempfile.mkdtemp(prefix="ballast-dags-")
os.environ.update(
    AIRFLOW_HOME=_HOME,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__UNIT_TEST_MODE="True",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_HOME}/airflow.db",
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def load_dags(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Any]:
    """Load the project's DAG folder with the policies of a folder."""

    def load(policies: Path) -> Any:
        from airflow.dag_processing.dagbag import DagBag

        monkeypatch.setenv("BALLAST_POLICIES", str(policies))
        return DagBag(str(ROOT / "dags"))

    return load


@pytest.fixture
def run_python() -> Callable[[str], str]:
    """Run Python code in a process of its own and return its output."""

    def run(program: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
        )
        return done.stdout

    return run
