"""A Kafka broker (KRaft, one node) on loopback, for tests and the demonstration of the engine.

It needs Java and the jars of ``tools/kafka-jars.lock``, and no network once they are there.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path

from embedded.errors import EmbeddedError, WaitedTooLong
from embedded.java import java_command, java_problem
from embedded.loopback_servers import end_of_log, free_ports
from embedded.processes import end_with

START_LIMIT_S = 300.0
STOP_LIMIT_S = 20.0
HEAP = ("-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = """
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
"""


class KafkaBroker:
    """One broker in a folder of its own; stop and start keep its topics.

    Args:
        jars: the folder with Kafka's jars.
        folder: where it keeps its files.

    Raises:
        EmbeddedError: there is no Java, or the jars are not there.
    """

    def __init__(self, jars: Path, folder: Path) -> None:
        java = java_command()
        problem = java_problem()
        if java is None or problem:
            raise EmbeddedError(f"no broker can be started: {problem}")
        if not list(jars.glob("kafka_2.13-*.jar")):
            raise EmbeddedError(
                f"Kafka's jars are not in {jars}: run `make kafka-jars`, once and with network"
            )
        self._java, self._jars, self._folder = java, jars, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """Host and port that clients connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process; None while it is stopped."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            EmbeddedError: it ended instead; the error has the end of its log.
            WaitedTooLong: it does not answer.
        """
        if not (self._folder / "server.properties").exists():
            self._prepare()
        log = (self._folder / "broker.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._folder / "server.properties")),
                stdout=log, stderr=subprocess.STDOUT, cwd=self._folder, start_new_session=True,
                preexec_fn=end_with(os.getpid()),
            )  # fmt: skip
        self._wait_until_it_answers()

    def stop(self, *, kill: bool = False) -> None:
        """End its process, by SIGKILL if asked for; a stopped one stays stopped."""
        process, self._process = self._process, None
        if process is None:
            return
        if not kill:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
                return
            except subprocess.TimeoutExpired:
                pass
        process.kill()
        process.wait()

    def remove(self) -> None:
        """Stop it and remove its folder."""
        self.stop(kill=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.port, controller = free_ports(2)
        logs = self._folder / "logs"
        properties = self._folder / "server.properties"
        (self._folder / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        text = PROPERTIES.format(port=self.port, controller=controller, logs=logs)
        part = properties.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        try:
            answer = subprocess.run(
                self._command("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(part)),
                capture_output=True, text=True, check=False, timeout=START_LIMIT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise WaitedTooLong(
                f"the broker's storage was not made within {START_LIMIT_S:.0f} s"
            ) from error
        if answer.returncode != 0:
            raise EmbeddedError(f"the broker's storage was not made: {answer.stderr.strip()}")
        part.replace(properties)

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [
            self._java, *HEAP,
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}",
            "-cp", os.path.join(self._jars, "*"), main, *arguments,
        ]  # fmt: skip

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            code = self._process.poll() if self._process else 1
            if code is not None:
                raise EmbeddedError(
                    f"the broker ended with {code}:\n{end_of_log(self._folder / 'broker.log')}"
                )
            if _is_open(self.port):
                return
            time.sleep(0.1)
        self.stop(kill=True)
        raise WaitedTooLong(f"the broker did not answer within {START_LIMIT_S:.0f} s")


def _is_open(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
