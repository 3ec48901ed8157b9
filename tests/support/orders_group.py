"""A consumer group of real processes on a real broker: the orders example and its service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from ballast.contracts.fault_points import VARIABLE
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Ack
from ballast.contracts.settings import Settings
from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.group_view import Broker, GroupView
from ballast.store.plans import read_acks
from ballast.store.tables import read_rows
from embedded.java_consumer import JavaConsumer
from embedded.processes import end_with
from examples.orders.check import Exactness, exactness, processed_orders
from tests.support.limits import limit_s
from tests.support.policies import small_policy
from tests.support.programs import job_environment
from tests.support.streaming_plans import publish

JARS = Path(__file__).resolve().parents[2] / ".ballast" / "kafka-jars"
T = TypeVar("T")
PARTITIONS = 6
RATE = 60
COST_US = 100
SESSION_MS = 6_000


NODES = ("node-0", "node-1", "node-2")
MIXED = ("node-2", "node-2", "node-2", "node-1", "node-0", "node-0")
BACK = ("node-0", "node-1", "node-2", "node-0", "node-1", "node-2")
"""Two placements, with partitions that move between them and one that stays."""


def kafka_policy(job: str, clients: str = "python") -> JobPolicy:
    """Windows of 2 s, so that tests see several."""
    engine = {"kind": "kafka", "group": job, "clients": clients}
    return small_policy(
        job=job, operators={job: PARTITIONS}, nodes=NODES, edges=[],
        window_s=2, statistics_period_s=12, engine=engine,
    )  # fmt: skip


class OrdersGroup:
    """Consumers, feed and engine services of one job; stops all of them at the end.

    Args:
        settings: where the tables are.
        policy: the job's policy; its name is also topic and group.
        address: the broker.
        folder: where the processes write.
    """

    def __init__(self, settings: Settings, policy: JobPolicy, address: str, folder: Path) -> None:
        self.settings, self.policy, self.folder = settings, policy, folder
        self.address = address
        self.out = folder / "out"
        self.out.mkdir(parents=True)
        self._environment = {
            **job_environment(settings), "BALLAST_KAFKA_BOOTSTRAP_SERVERS": address,
        }  # fmt: skip
        self.connection = ConnectionSettings({"bootstrap_servers": [address]})
        self.broker = Broker(self.connection)
        self._admin = KafkaAdminClient(bootstrap_servers=[address])
        self._admin.create_topics(
            {policy.job: {"num_partitions": PARTITIONS}}, wait_for_metadata=True
        )
        self.members: dict[str, subprocess.Popen[bytes]] = {}
        self.services: list[subprocess.Popen[bytes]] = []
        self._feed: subprocess.Popen[bytes] | None = None

    @property
    def job(self) -> str:
        return self.policy.job

    def start_member(self, node: str, poll_ms: int = 200) -> subprocess.Popen[bytes]:
        self.members[node] = self._start(
            node, "examples.orders.consumer", "--job", self.job, "--topic", self.job,
            "--group", self.job, "--node", node, "--out", str(self.out),
            "--cost-us", str(COST_US), "--poll-ms", str(poll_ms),
            "--session-ms", str(SESSION_MS),
        )  # fmt: skip
        return self.members[node]

    def start_members(self, *nodes: str) -> None:
        for node in nodes:
            self.start_member(node)

    def start_feed(self) -> None:
        self._feed = self._start(
            "feed", "examples.orders.feed", "--topic", self.job, "--rate", str(RATE),
            "--partitions", str(PARTITIONS), "--out", str(self.out),
        )  # fmt: skip

    def start_service(self, fault: str | None = None) -> subprocess.Popen[bytes]:
        faults = {VARIABLE: fault} if fault else {}
        service = self._start(
            f"service-{len(self.services)}", "ballast.cli.main", "engine", "run", self.job,
            environment=faults,
        )  # fmt: skip
        self.services.append(service)
        return service

    def add_partitions(self, count: int) -> None:
        self._admin.create_partitions({self.job: count})

    def group(self) -> GroupView:
        try:
            return self.broker.group(self.job)
        except KafkaError:
            # It has just started, and its groups are not loaded.
            return GroupView("Unknown", "")

    def wait_until_balanced(self, nodes: int) -> GroupView:
        """Waits until the group is stable and all of its nodes have partitions."""

        def look() -> GroupView | None:
            group = self.group()
            done = group.state == "Stable" and len(group.node_by_partition) == PARTITIONS
            return group if done and len(set(group.node_by_partition.values())) == nodes else None

        return wait_for("the group is stable", look, self.logs)

    def ended(self) -> Exactness:
        """Stops the feed, waits until every order was processed, stops all, and compares."""
        if self._feed is not None:
            stop(self._feed)

        def look() -> Exactness | None:
            found = exactness(self.out, processed_orders(self.out))
            return found if found.lost == 0 else None

        try:
            wait_for("every order is processed", look, self.logs)
        except TimeoutError:
            return exactness(self.out, processed_orders(self.out))
        for process in [*self.members.values(), *self.services]:
            stop(process)
        return exactness(self.out, processed_orders(self.out))

    def close(self) -> None:
        for process in [self._feed, *self.members.values(), *self.services]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.broker.close()
        self._admin.close()

    def logs(self) -> str:
        """The ends of all logs, for the message of a test that waited too long."""
        parts = []
        for log in sorted(self.folder.glob("*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            parts.append("\n".join([f"== {log.name}", *lines]))
        return "\n".join(parts)

    def _start(
        self, name: str, module: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        return self._run(name, [sys.executable, "-m", module, *arguments], environment)

    def _run(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log,
                env={**self._environment, **(environment or {})},
                # A test that runs out of time ends pytest at once, without any clean-up.
                preexec_fn=end_with(os.getpid()),
            )  # fmt: skip


class JavaOrdersGroup(OrdersGroup):
    """The same with Java consumers, which have the assignor's jar on their class path."""

    def start_member(self, node: str, poll_ms: int = 200) -> subprocess.Popen[bytes]:
        consumer = JavaConsumer(
            node, self.job, self.job, "plan", COST_US, session_ms=SESSION_MS
        )  # fmt: skip
        log = self.out / f"{node}-{len(list(self.out.glob('*.log')))}.log"
        command = consumer.command(JARS, self.address, self.folder, log)
        self.members[node] = self._run(node, command)
        return self.members[node]

    def whole_windows(self, count: int) -> list[list[dict[str, Any]]] | None:
        """The rows of each window that has every partition, once there are so many."""
        rows: dict[Any, list[dict[str, Any]]] = {}
        for row in read_rows(self.settings, "metrics.key_groups", job=self.job).to_pylist():
            rows.setdefault(row["window_end_at"], []).append(row)
        whole = [found for found in rows.values() if len(found) == PARTITIONS]
        return whole if len(whole) >= count else None


def stop(process: subprocess.Popen[bytes]) -> int:
    """Ends a process by SIGTERM; returns its exit code."""
    if process.poll() is None:
        process.terminate()
    return process.wait(limit_s(60))


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process without any clean-up."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(
    what: str, look: Callable[[], T | None], logs: Callable[[], str], limit: float = 60
) -> T:
    """The first answer that is not None."""
    deadline = time.monotonic() + limit_s(limit)
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {limit_s(limit):.0f} s: {what}\n{logs()}")
        time.sleep(0.2)


def give(group: OrdersGroup, version: int, nodes: tuple[str, ...]) -> None:
    """Publishes a version that places each partition."""
    publish(group.settings, group.policy, version, lambda _, number: nodes[number])


def ack(group: OrdersGroup, version: int, status: str) -> Ack:
    """Waits until a version is acknowledged with a status."""

    def look() -> Ack | None:
        acks = read_acks(group.settings, group.job, version)
        return next((each for each in acks if each.status == status), None)

    return wait_for(f"version {version} is {status}", look, group.logs)


def statuses(settings: Settings, policy: JobPolicy) -> list[tuple[int, str]]:
    """All acknowledgements of a job."""
    return [(each.version, each.status) for each in read_acks(settings, policy.job)]


def owners(group: OrdersGroup) -> list[str | None]:
    """The node of each partition, as the broker says."""
    found = group.group().node_by_partition
    return [found.get((group.job, number)) for number in range(PARTITIONS)]
