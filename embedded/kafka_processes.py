"""The processes of ``make demo-kafka``: consumers, feed, engine service, pipeline programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ballast.contracts.settings import Settings
from ballast.contracts.spark import SHORT_LIVED_JVM, submit_jars
from embedded.airflow import ROOT
from embedded.errors import EmbeddedError
from embedded.java_consumer import JavaConsumer
from embedded.processes import Child, stop_all, tail

STOP_LIMIT_S = 60.0
PROGRAM_LIMIT_S = 900.0
GATE_FAILED = 4
"""Exit code of a program whose metrics are missing or broken."""
JOB, TOPIC = "orders", "orders"
KAFKA_JARS = ROOT / ".ballast" / "kafka-jars"
PYTHON, JAVA = "python", "java"
PLAN = "plan"
"""The assignor of Ballast, as the consumers of the example name it."""


@dataclass(frozen=True)
class OrdersLoad:
    """What the demonstration's consumers have to do."""

    partitions: int = 12
    rate: float = 500.0
    """Orders a second."""
    cost_us: int = 300
    """CPU time of an order."""
    client: str = PYTHON
    """What the consumers are written in: ``python`` or ``java``."""


class KafkaProcesses:
    """Starts processes against one broker, and stops all of them.

    Args:
        settings: where tables and policies are; logs go into ``home``.
        address: the broker.
        load: what is fed.
    """

    def __init__(self, settings: Settings, address: str, load: OrdersLoad) -> None:
        self._settings, self._address, self._load = settings, address, load
        self._started = 0
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "BALLAST_HOME": str(settings.home),
            "BALLAST_WAREHOUSE": settings.warehouse,
            "BALLAST_POLICIES": str(settings.policies),
            "BALLAST_JARS": str(settings.jars),
            "BALLAST_SPARK_MASTER": "local[1]",
            "BALLAST_KAFKA_BOOTSTRAP_SERVERS": address,
        }
        self._children: list[Child] = []

    def folder_of(self, assignor: str) -> Path:
        """The folder with the lines of the consumers of an assignor."""
        return self._settings.home / "out" / assignor

    def start_member(self, assignor: str, node: str) -> Child:
        """Start a consumer; each assignor has a group of its own, the plan's is the job's."""
        folder = self.folder_of(assignor)
        folder.mkdir(parents=True, exist_ok=True)
        group = JOB if assignor == PLAN else f"{JOB}-{assignor}"
        # Groups that are compared start at the end; the plan's must have processed every order.
        first = "earliest" if assignor == PLAN else "latest"
        name = f"{assignor}-{node}"
        if self._load.client == JAVA:
            consumer = JavaConsumer(node, group, TOPIC, assignor, self._load.cost_us, first)
            self._started += 1
            log = folder / f"{node}-{self._started}.log"
            command = consumer.command(KAFKA_JARS, self._address, self._settings.home, log)
            return self._start(name, command)
        return self._start_module(
            name, "examples.orders.consumer", "--job", JOB, "--topic", TOPIC,
            "--group", group, "--assignor", assignor, "--node", node, "--out", str(folder),
            "--cost-us", str(self._load.cost_us), "--first", first, "--poll-ms", "100",
        )  # fmt: skip

    def start_feed(self) -> Child:
        """Start the feed; stopped, it writes what it fed."""
        folder = self.folder_of(PLAN)
        folder.mkdir(parents=True, exist_ok=True)
        return self._start_module(
            "feed", "examples.orders.feed", "--topic", TOPIC, "--rate", str(self._load.rate),
            "--partitions", str(self._load.partitions), "--out", str(folder),
        )  # fmt: skip

    def start_service(self) -> Child:
        """Start ``ballast engine run``."""
        return self._start_module("service", "ballast.cli.main", "engine", "run", JOB)

    def run_program(self, name: str, run_id: str) -> int:
        """Run a program of the pipeline as its task does; 0, or 4 if the gate fails.

        Raises:
            EmbeddedError: it failed; the error has the end of its log.
        """
        log = self._settings.home / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            answer = subprocess.run(
                [
                    str(Path(sys.executable).parent / "spark-submit"),
                    "--jars", submit_jars(self._settings),
                    "--driver-java-options", SHORT_LIVED_JVM,
                    "--driver-memory", self._settings.driver_memory,
                    "--conf", "spark.ui.enabled=false",
                    str(ROOT / "spark_jobs" / f"{name}.py"), "--job", JOB, "--run-id", run_id,
                ],
                env=self.environment, cwd=self._settings.home, stdout=output,
                stderr=subprocess.STDOUT, timeout=PROGRAM_LIMIT_S, check=False,
            )  # fmt: skip
        if answer.returncode not in (0, GATE_FAILED):
            raise EmbeddedError(
                f"{name} ended with {answer.returncode}; the end of {log}:\n{tail(log)}"
            )
        return answer.returncode

    def stop(self, children: Sequence[Child]) -> None:
        """End processes by SIGTERM, and wait until they have ended."""
        stop_all(lambda: [p for child in children for p in child.processes()], STOP_LIMIT_S)
        for child in children:
            child.forget()
        self._children = [child for child in self._children if child not in children]

    def stop_all(self) -> None:
        """End every process that still runs."""
        self.stop(self._children)

    def check(self) -> None:
        """Raise if a process ended by itself."""
        for child in self._children:
            child.check_alive()

    def _start_module(self, name: str, module: str, *arguments: str) -> Child:
        return self._start(name, [sys.executable, "-m", module, *arguments])

    def _start(self, name: str, command: Sequence[str]) -> Child:
        home = self._settings.home
        child = Child(name, command, home / "run", home / "logs" / f"{name}.log")
        child.start(self.environment, cwd=ROOT)
        self._children.append(child)
        return child
