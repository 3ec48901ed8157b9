"""A Flink cluster on loopback: JobManager and TaskManagers, for tests and the demonstration.

It needs Java, its compiler and the jars of ``tools/flink.lock``, and no network once it has them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from embedded.errors import EmbeddedError, WaitedTooLong
from embedded.java import java_command, java_problem
from embedded.loopback_servers import end_of_log, free_ports

START_LIMIT_S = 300.0
STOP_LIMIT_S = 20.0
REST_TIMEOUT_S = 60.0
OPENED = (
    "java.lang", "java.lang.reflect", "java.util", "java.util.concurrent",
    "java.util.concurrent.atomic", "java.util.concurrent.locks", "java.io", "java.nio", "java.net",
    "java.text", "java.time", "sun.nio.ch",
)  # fmt: skip
"""Packages of java.base that Flink reflects on."""
LOGGING = """
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.name = out
appender.out.type = CONSOLE
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %-5p %c{1} - %m%n
"""
CONFIG = """
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: {rpc}
jobmanager.bind-host: 127.0.0.1
jobmanager.memory.process.size: 1024m
jobmanager.scheduler: adaptive
jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout: 0 ms
jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout: 0 ms
jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling: 0 ms
jobmanager.adaptive-scheduler.rescale-trigger.max-delay: 0 ms
jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures: 1
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: {rest}
blob.server.port: 0
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: {slots}
web.upload.dir: {folder}/upload
web.refresh-interval: 1000
web.adaptive-scheduler.rescale-history.size: 16
metrics.fetcher.update-interval: 1000
heartbeat.interval: 1000
heartbeat.timeout: 10000
state.backend.type: hashmap
execution.checkpointing.interval: {checkpoint_ms} ms
execution.checkpointing.dir: file://{folder}/checkpoints
execution.checkpointing.savepoint-dir: file://{folder}/savepoints
execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000000
restart-strategy.fixed-delay.delay: 100 ms
"""
TASK_MANAGER = {
    "taskmanager.cpu.cores": "1.0",
    "taskmanager.memory.framework.heap.size": "64mb",
    "taskmanager.memory.task.heap.size": "192mb",
    "taskmanager.memory.framework.off-heap.size": "32mb",
    "taskmanager.memory.task.off-heap.size": "0b",
    "taskmanager.memory.network.min": "64mb",
    "taskmanager.memory.network.max": "64mb",
    "taskmanager.memory.managed.size": "32mb",
    "taskmanager.memory.jvm-metaspace.size": "192mb",
    "taskmanager.memory.jvm-overhead.min": "64mb",
    "taskmanager.memory.jvm-overhead.max": "64mb",
}


class FlinkCluster:
    """One JobManager and TaskManagers in a folder of their own.

    Args:
        jars: the folder with Flink's jars.
        folder: where it keeps its files.
        slots: slots of each TaskManager.
        checkpoint_ms: time between two checkpoints of a job.

    Raises:
        EmbeddedError: there is no Java, or the jars are not there.
    """

    def __init__(self, jars: Path, folder: Path, slots: int = 2, checkpoint_ms: int = 2000) -> None:
        java, problem = java_command(), java_problem()
        if java is None or problem:
            raise EmbeddedError(f"no Flink cluster can be started: {problem}")
        if not list(jars.glob("flink-dist-*.jar")):
            raise EmbeddedError(
                f"Flink's jars are not in {jars}: run `make flink-jars`, once and with network"
            )
        self._java, self._jars, self._folder = java, jars, folder
        self._slots, self._checkpoint_ms = slots, checkpoint_ms
        self._manager: subprocess.Popen[bytes] | None = None
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._port = 0

    @property
    def url(self) -> str:
        """Where its REST API answers."""
        return f"http://127.0.0.1:{self._port}"

    def start(self, task_managers: int) -> None:
        """Start it and wait until every slot is there.

        Raises:
            EmbeddedError: a process ended instead; the error has the end of its log.
            WaitedTooLong: it does not answer.
        """
        if not self._port:
            self._prepare()
        self.start_job_manager()
        for number in range(task_managers):
            self.start_task_manager(f"tm-{number}")
        self.wait_for_slots(task_managers * self._slots)

    def start_job_manager(self) -> None:
        """Start the JobManager, and wait until it answers."""
        options = ("-Xmx384m", "-Xms384m", "-XX:MaxMetaspaceSize=256m")
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        self._manager = self._run("jobmanager", options, main)
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            self._check_alive()
            try:
                self.call("GET", "/overview")
            except (OSError, EmbeddedError):
                # It listens before it can answer.
                time.sleep(0.2)
            else:
                return
        raise WaitedTooLong(f"the JobManager did not answer within {START_LIMIT_S:.0f} s")

    def stop_job_manager(self) -> None:
        """Kill the JobManager; it forgets its jobs, as it has no high availability."""
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.kill()
            manager.wait()

    def start_task_manager(self, name: str) -> None:
        """Start a TaskManager; it registers by itself."""
        options = ("-Xmx256m", "-Xms256m", "-XX:MaxDirectMemorySize=192m",
                   "-XX:MaxMetaspaceSize=192m")  # fmt: skip
        settings = {"taskmanager.resource-id": name, **TASK_MANAGER}
        arguments = [text for key, value in settings.items() for text in ("-D", f"{key}={value}")]
        main = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        self._workers[name] = self._run(name, options, main, *arguments)

    def kill_task_manager(self, name: str) -> None:
        """End a TaskManager by SIGKILL."""
        worker = self._workers.pop(name)
        worker.kill()
        worker.wait()

    def wait_for_slots(self, slots: int) -> None:
        """Wait until the JobManager knows so many slots.

        Raises:
            WaitedTooLong: they do not come.
        """
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            self._check_alive()
            if self.call("GET", "/overview")["slots-total"] == slots:
                return
            time.sleep(0.2)
        raise WaitedTooLong(f"the cluster has not {slots} slots after {START_LIMIT_S:.0f} s")

    def submit(self, jar: Path, arguments: list[str], savepoint: str | None = None) -> str:
        """Start a job; return its id.

        Args:
            jar: the jar of the job.
            arguments: what its main method gets.
            savepoint: the checkpoint or savepoint that it goes on from.
        """
        uploaded = self._upload(jar)
        body: dict[str, Any] = {"programArgsList": arguments}
        if savepoint:
            body["savepointPath"] = savepoint
        return str(self.call("POST", f"/jars/{uploaded}/run", body)["jobid"])

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        self.call("PATCH", f"/jobs/{job_id}?mode=cancel")

    def newest_checkpoint(self, job_id: str) -> str:
        """The folder of the newest completed checkpoint of a job whose JobManager is stopped.

        Raises:
            EmbeddedError: there is none.
        """
        complete = (self._folder / "checkpoints" / job_id).glob("chk-*/_metadata")
        found = sorted(complete, key=lambda file: int(file.parent.name.removeprefix("chk-")))
        if not found:
            raise EmbeddedError(f"job {job_id} completed no checkpoint")
        return f"file://{found[-1].parent}"

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call the REST API.

        Raises:
            OSError: it does not answer.
            EmbeddedError: it answers with an error.
        """
        data = None if body is None else json.dumps(body).encode()
        return self._send(method, path, data, "application/json")

    def stop(self) -> None:
        """End all processes."""
        processes = [*self._workers.values(), *([self._manager] if self._manager else [])]
        self._workers, self._manager = {}, None
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + STOP_LIMIT_S
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def remove(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def logs(self) -> str:
        """The end of each process's log."""
        return "\n".join(
            f"{file.name}:\n{end_of_log(file)}" for file in sorted(self._folder.glob("*.log"))
        )

    def _prepare(self) -> None:
        for folder in ("conf", "upload", "checkpoints"):
            (self._folder / folder).mkdir(parents=True, exist_ok=True)
        self._port, rpc = free_ports(2)
        text = CONFIG.format(
            rpc=rpc, rest=self._port, slots=self._slots, folder=self._folder,
            checkpoint_ms=self._checkpoint_ms,
        )  # fmt: skip
        (self._folder / "conf" / "config.yaml").write_text(text, encoding="utf-8")
        (self._folder / "conf" / "log4j.properties").write_text(LOGGING, encoding="utf-8")

    def _run(
        self, name: str, options: tuple[str, ...], main: str, *arguments: str
    ) -> subprocess.Popen[bytes]:
        command = [
            self._java, *options, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
            f"-Dlog4j.configurationFile=file:{self._folder / 'conf' / 'log4j.properties'}",
            "-cp", str(self._jars / "*"), main,
            "--configDir", str(self._folder / "conf"), *arguments,
        ]  # fmt: skip
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=self._folder,
                start_new_session=True,
            )  # fmt: skip

    def _check_alive(self) -> None:
        processes = {"jobmanager": self._manager, **self._workers}
        for name, process in processes.items():
            code = process.poll() if process else None
            if code is not None:
                end = end_of_log(self._folder / f"{name}.log")
                raise EmbeddedError(f"the process {name} of Flink ended with {code}:\n{end}")

    def _upload(self, jar: Path) -> str:
        boundary = uuid.uuid4().hex
        head = (
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="jarfile"; filename="{jar.name}"\r\n'
            "Content-Type: application/x-java-archive\r\n\r\n"
        )
        data = head.encode() + jar.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        answer = self._send("POST", "/jars/upload", data, kind)
        return Path(str(answer["filename"])).name

    def _send(self, method: str, path: str, data: bytes | None, kind: str) -> Any:
        request = urllib.request.Request(  # noqa: S310 - loopback
            self.url + path, data=data, method=method, headers={"Content-Type": kind}
        )
        try:
            with urllib.request.urlopen(request, timeout=REST_TIMEOUT_S) as answer:  # noqa: S310
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace")[:2000]
            message = f"{method} {path} is answered with {error.code}: {reason}"
            raise EmbeddedError(message) from error
        return json.loads(text) if text.strip() else {}


def compile_job(source: Path, jars: Path, folder: Path) -> Path:
    """Compile a job of one Java file; return its jar.

    Args:
        source: the Java file; its public class has the main method.
        jars: the folder with Flink's jars.
        folder: where the jar is written.

    Raises:
        EmbeddedError: there is no compiler, or it refuses the file.
    """
    java = java_command()
    tools = Path(java).resolve().parent if java else Path()
    if not (tools / "javac").exists() or not (tools / "jar").exists():
        raise EmbeddedError("there is no javac beside java: install a JDK, version 17 or 21")
    classes, name = folder / "classes", source.stem
    classes.mkdir(parents=True, exist_ok=True)
    jar = folder / f"{name}.jar"
    steps = (
        [str(tools / "javac"), "-nowarn", "--release", "17", "-cp", str(jars / "*"),
         "-d", str(classes), str(source)],
        [str(tools / "jar"), "cfe", str(jar), name, "-C", str(classes), "."],
    )  # fmt: skip
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            raise EmbeddedError(f"{source} was not compiled: {done.stderr.strip()}")
    return jar
