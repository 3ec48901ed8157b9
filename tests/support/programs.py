"""Run a pipeline program as Airflow does: through spark-submit, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ballast.contracts.fault_points import VARIABLE
from ballast.contracts.settings import Settings
from ballast.contracts.spark import JARS, SHORT_LIVED_JVM

ROOT = Path(__file__).resolve().parents[2]
KILLED = 137
"""What spark-submit ends with when the program was killed: 128 + SIGKILL."""


def submit(
    settings: Settings, program: str, *arguments: str, fault: str | None = None, limit_s: int = 280
) -> subprocess.CompletedProcess[str]:
    """Run ``spark_jobs/<program>.py`` to its end, or to the fault point that kills it."""
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        "--jars", ",".join(str(settings.jars / jar) for jar in JARS),
        "--driver-java-options", SHORT_LIVED_JVM,
        "--conf", "spark.ui.enabled=false",
        str(ROOT / "spark_jobs" / f"{program}.py"),
        *arguments,
    ]  # fmt: skip
    return subprocess.run(
        command, env=job_environment(settings, fault), cwd=settings.home, capture_output=True,
        text=True, timeout=limit_s, check=False,
    )  # fmt: skip


def job_environment(settings: Settings, fault: str | None = None) -> dict[str, str]:
    """The environment with the settings, for a program or a streaming job beside it."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "BALLAST_HOME": str(settings.home),
        "BALLAST_WAREHOUSE": settings.warehouse,
        "BALLAST_POLICIES": str(settings.policies),
        "BALLAST_JARS": str(settings.jars),
        "BALLAST_SPARK_MASTER": settings.spark_master,
        **({VARIABLE: fault} if fault else {}),
    }
