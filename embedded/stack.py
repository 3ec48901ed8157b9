"""The reference job and embedded Airflow, started and stopped together."""

from __future__ import annotations

import os
import sys
import time
from contextlib import nullcontext
from datetime import UTC, datetime

import psutil

from ballast.airflow.rest import wait_until
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.settings import Settings
from ballast.streaming.job_lock import JobLock
from embedded import checks
from embedded.airflow import ROOT, EmbeddedAirflow
from embedded.errors import EmbeddedError
from embedded.machine_speed import MachineSpeed
from embedded.processes import Child, marked_environment
from embedded.progress import print_progress

JOB = "flights"
DAG_ID = f"reoptimize__{JOB}"
# Limits on a machine of usual speed; the measured speed of this machine scales them.
DRAIN_LIMIT_S = 180.0
MEMORY_EVERY_S = 10.0


class Stack:
    """The reference job and Airflow.

    Args:
        settings: folders and tables.
        schedules: whether Airflow starts runs by itself.
        rate: flights a second; None is the job's own rate.
    """

    def __init__(self, settings: Settings, schedules: bool, rate: int | None) -> None:
        self.settings = settings
        self.policy: JobPolicy = load_policy(settings.policies / f"{JOB}.yaml")
        env = {
            "BALLAST_HOME": str(settings.home),
            "BALLAST_WAREHOUSE": settings.warehouse,
            "BALLAST_POLICIES": str(settings.policies),
            "BALLAST_JARS": str(settings.jars),
            "BALLAST_SCHEDULES": "on" if schedules else "off",
        }
        self.airflow = EmbeddedAirflow(
            settings.home / "airflow",
            checks.port_from(os.environ),
            env=env,
            progress=_print_airflow_progress,
        )
        self.job = Child(
            "streaming-job",
            [sys.executable, "-m", "examples.flights", *(["--rate", str(rate)] if rate else [])],
            settings.home / "airflow" / "run",
            settings.home / "logs" / "flights.log",
        )
        # One core for the job, so that its tasks do not slow each other down.
        alone = {"BALLAST_SPARK_MASTER": "local[1]"}
        self._job_environment = env | alone | marked_environment(str(self.airflow.home))
        self.peak_memory_bytes = 0
        self._memory_measured_at = 0.0
        self.started_at = datetime.now(UTC)
        self.speed = MachineSpeed()

    def start(self) -> None:
        """Starts the job first, so that it writes windows while Airflow starts."""
        self.airflow.prepare()
        self.job.start(self.airflow.environment() | self._job_environment, cwd=ROOT)
        print_progress(f"streaming job started, process {self.job.pid}, log in {self.job.log}")
        began = time.monotonic()
        self.airflow.launch()
        self.speed.observe(time.monotonic() - began)
        print_progress(
            f"this machine is {self.speed.slowdown:.1f} times slower than usual; time limits are "
            "multiplied by that"
        )

    def restart_job(self) -> None:
        """Stops the job at a batch boundary and starts it again with the present policy."""
        self.stop_job()
        self.policy = load_policy(self.settings.policies / f"{JOB}.yaml")
        self.job.start(self.airflow.environment() | self._job_environment, cwd=ROOT)
        print_progress(f"streaming job started again, process {self.job.pid}")

    def stop_job(self) -> None:
        """Asks the job to finish its input and waits until it has ended."""
        if self.job.exit_code() is not None or not self.job.processes():
            return
        print_progress("stopping the streaming job at a batch boundary")
        self.job.processes()[0].terminate()
        limit = self.speed.limit(DRAIN_LIMIT_S)
        wait_until(lambda: self.job.exit_code(), "the streaming job did not stop", limit)
        if self.job.exit_code() != 0:
            self.job.check_alive()

    def stop(self) -> None:
        """Stops every process that still runs."""
        self.airflow.stop()
        self.job.forget()

    def check(self) -> None:
        """Raises if a process ended by itself; records how much memory all processes use."""
        self.airflow.check_alive()
        self.job.check_alive()
        # Summing memory walks every process's pages, so it is done rarely.
        if time.monotonic() - self._memory_measured_at >= MEMORY_EVERY_S:
            self._memory_measured_at = time.monotonic()
            self.peak_memory_bytes = max(self.peak_memory_bytes, memory_in_use())


def start_afresh(settings: Settings) -> None:
    """Moves tables and job state of an earlier run aside, so that the job starts placed by hash."""
    if settings.warehouse != str(settings.home / "warehouse"):
        raise EmbeddedError(
            f"BALLAST_WAREHOUSE is {settings.warehouse}; make demo starts from empty tables and "
            "moves existing ones aside, but only inside BALLAST_HOME; to fix it: unset "
            "BALLAST_WAREHOUSE, or use make run"
        )
    old = [settings.home / "warehouse", settings.home / "jobs"]
    if not any(folder.exists() for folder in old):
        return
    previous = settings.home / "previous" / time.strftime("%Y%m%dT%H%M%S")
    with nullcontext() if not old[1].exists() else JobLock(old[1] / JOB / "job.lock", JOB):
        previous.mkdir(parents=True)
        for folder in old:
            if folder.exists():
                folder.rename(previous / folder.name)
    print_progress(f"starting from empty tables; the earlier ones are now in {previous}")


def memory_in_use() -> int:
    """Bytes of resident memory of this process and its descendants; shared pages count once."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, OSError):
            continue
    return total


def _print_airflow_progress(line: str) -> None:
    print_progress(f"airflow: {line}")
