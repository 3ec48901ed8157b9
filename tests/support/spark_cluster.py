"""A Spark master and workers on loopback addresses, and the flights job on their executors.

Each worker has an address and a work folder of its own. Every process is started here, is known by
its pid, and is stopped at the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import psutil

from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.spark import submit_jars
from ballast.streaming.job_state import job_folder
from tests.support.limits import limit_s

ROOT = Path(__file__).resolve().parents[2]
JOB = "flights"
MASTER_HOST = "127.0.0.1"
EXECUTOR = "CoarseGrainedExecutorBackend"


def free_port() -> int:
    """A port of the master's address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((MASTER_HOST, 0))
        return int(probe.getsockname()[1])


def eventually(is_so: Callable[[], bool], what: str, seconds: float) -> float:
    """Waits until something is so; returns the seconds it took on this machine."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < limit_s(seconds), f"not within {seconds:.0f} s: {what}"
        time.sleep(0.2)
    return time.monotonic() - began


@dataclass
class SparkCluster:
    """A standalone master and its workers."""

    folder: Path
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        """The address of the master."""
        return f"spark://{MASTER_HOST}:{self.port}"

    def start_master(self) -> None:
        """Starts the master and waits until it listens."""
        self._start("master", "Master", MASTER_HOST, ["--port", str(self.port)])
        eventually(self._listens, "the master listens", 60)

    def start_worker(self, number: int, before: Sequence[str] = ()) -> None:
        """Starts a worker with two cores; ``before`` is a command that starts its command."""
        name = f"worker-{number}"
        work = self.folder / "work" / name
        arguments = [
            "--cores", "2", "--memory", "2g", "--work-dir", str(work), self.master,
        ]  # fmt: skip
        self._start(name, "Worker", f"127.0.0.{number + 1}", arguments, before)
        log = self.folder / f"{name}.log"
        eventually(lambda: "registered with master" in log.read_text(), f"{name} registers", 90)

    def kill(self, name: str) -> None:
        """Kills the master or a worker, and waits for its end."""
        self.processes[name].kill()
        self.processes.pop(name).wait()

    def executors(self, number: int | None = None) -> list[psutil.Process]:
        """The executors of all workers, or of one."""
        folder = self.folder / "work"
        wanted = folder if number is None else folder / f"worker-{number}"
        return [process for process in _executors() if _works_in(process, wanted)]

    def stop(self) -> None:
        """Stops every process that was started here, and their executors."""
        for executor in self.executors():
            executor.kill()
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def _start(
        self,
        name: str,
        kind: str,
        host: str,
        arguments: Sequence[str],
        before: Sequence[str] = (),
    ) -> None:
        command = [
            *before, f"{spark_home()}/bin/spark-class",
            f"org.apache.spark.deploy.{kind.lower()}.{kind}",
            "--host", host, "--webui-port", str(free_port()), *arguments,
        ]  # fmt: skip
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=environment() | {"SPARK_DAEMON_MEMORY": "256m"},
            )  # fmt: skip

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((MASTER_HOST, self.port)) == 0


@dataclass
class ClusterJob:
    """The flights job with its driver on this machine and two executors of one core each."""

    cluster: SparkCluster
    home: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the job."""
        return load_settings({
            "BALLAST_HOME": str(self.home),
            "BALLAST_JARS": str(ROOT / ".ballast" / "jars"),
            "BALLAST_SPARK_MASTER": self.cluster.master,
        })  # fmt: skip

    @property
    def log(self) -> Path:
        """What the driver prints, over all starts."""
        return self.home / "driver.log"

    def start(self, *arguments: str) -> None:
        """Starts the driver."""
        settings = self.settings
        options = {
            "spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "512m",
            "spark.driver.host": MASTER_HOST, "spark.driver.bindAddress": MASTER_HOST,
        }  # fmt: skip
        conf = " ".join(f"--conf {name}={value}" for name, value in options.items())
        env = environment() | {
            "BALLAST_HOME": str(settings.home),
            "BALLAST_JARS": str(settings.jars),
            "BALLAST_SPARK_MASTER": settings.spark_master,
            "PYSPARK_SUBMIT_ARGS": f"--jars {submit_jars(settings)} {conf} pyspark-shell",
        }
        self.home.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.flights", "--trigger", "1", *arguments],
                cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def batches(self) -> int:
        """Number of the newest batch that has begun; -1 before the first."""
        names = [
            int(path.stem.removeprefix("batch-"))
            for path in (job_folder(self.settings, JOB) / "decisions").glob("batch-*.json")
        ]
        return max(names, default=-1)

    def wait_for_batches(self, more: int, seconds: float = 240) -> float:
        """Waits until some more batches have begun; returns the seconds it took."""
        wanted = self.batches() + more
        return eventually(
            lambda: self.batches() >= wanted or self.has_ended(), f"batch {wanted}", seconds
        )

    def has_ended(self) -> bool:
        """Whether the driver's process has ended."""
        return self.process is not None and self.process.poll() is not None

    def wait(self, seconds: float = 300) -> int:
        """Waits for the end of the driver; returns its exit code."""
        assert self.process is not None
        return self.process.wait(timeout=limit_s(seconds))

    def terminate(self) -> int:
        """Asks the driver to stop; returns its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Kills the driver with its JVM."""
        assert self.process is not None
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        psutil.wait_procs(children, timeout=60)

    def stop(self) -> None:
        """Ends the driver, however it is."""
        if self.process is not None and not self.has_ended():
            self.kill()


def environment() -> dict[str, str]:
    """The environment of every process of the cluster."""
    return os.environ | {
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": MASTER_HOST,
    }


def spark_home() -> Path:
    """Folder of the installed pyspark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def private_folder(folder: Path) -> list[str] | None:
    """A command that gives a command an empty file system over a folder; None without the right."""
    if shutil.which("unshare") is None:
        return None
    mount = f'mount -t tmpfs tmpfs "{folder}" && exec "$@"'
    words = ["unshare", "-m", "--propagation", "private", "bash", "-c", mount, "bash"]
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else None


def _executors() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(EXECUTOR in word for word in process.info["cmdline"] or ())
    ]


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()).is_relative_to(folder)
    except psutil.Error:
        return False
