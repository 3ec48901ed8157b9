"""A Kafka consumer group under a plan, on one machine: ``make demo-kafka``.

Starts a broker, orders that are as unequal as words, and three consumers: first under each assignor
of Kafka, then under Ballast's. The programs of the pipeline make a plan from what was measured, the
group takes it up, and the next windows show what it brought. Then a second plan drains a node, and
that node is killed during the take-up. Airflow is left out: the programs are run one after another,
with the arguments that the DAG gives them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import yaml
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from ballast.contracts.errors import BallastError
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.records import Ack, Head
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.spark import submit_conf
from ballast.engines.kafka.connection import ConnectionSettings
from ballast.engines.kafka.group_view import Broker
from ballast.store.plans import (
    read_acks,
    read_assignment,
    read_head,
    read_outcomes,
    read_plan,
    read_promises,
)
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from embedded.errors import EmbeddedError
from embedded.kafka_broker import KafkaBroker
from embedded.kafka_report import Gaps, KafkaFindings, report_lines, shortcomings
from embedded.machine_speed import MachineSpeed, wait_while_progressing
from embedded.processes import Stopped, ending_signals_raise
from embedded.progress import print_progress
from examples.orders.check import (
    Exactness,
    exactness,
    load_distance_pct,
    longest_gaps_ms,
    processed_orders,
)

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
JOB = "orders"
ASSIGNORS = ("range", "round-robin", "cooperative-sticky")
RATE = 500
COST_US = 300
BASELINE_S = 20.0
WATCHED_S = 10.0
QUIET_LIMIT_S = 120.0
SESSION_MS = 10_000
USUAL_BROKER_START_S = 5.0


class KafkaDemo:
    """Broker, feed, consumers and engine service, started here and all stopped by :meth:`close`."""

    def __init__(self) -> None:
        base = load_settings()
        self.folder = base.home / "kafka-demo"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.out = self.folder / "plan"
        self.out.mkdir(parents=True)
        policies = self.folder / "policies"
        shutil.copytree(ROOT / "examples" / "orders" / "policies", policies)
        self.settings: Settings = replace(
            base, home=self.folder, warehouse=str(self.folder / "warehouse"), policies=policies,
            jars=base.jars,
        )  # fmt: skip
        self.policy: JobPolicy = load_policy(policies / f"{JOB}.yaml")
        self.speed = MachineSpeed()
        self.server = KafkaBroker(base.home / "kafka-jars", self.folder / "broker")
        self.consumers: dict[str, subprocess.Popen[bytes]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._broker: Broker | None = None
        self._runs = 0

    @property
    def partitions(self) -> int:
        """Partitions of the topic."""
        return self.policy.operators[0].key_groups

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes of the policy."""
        return tuple(node.id for node in self.policy.nodes)

    def start(self) -> None:
        """Start the broker, make the topic, and begin to feed it."""
        began = time.monotonic()
        self.server.start()
        self.speed.observe(time.monotonic() - began, USUAL_BROKER_START_S)
        print_progress(f"broker on {self.server.address}, {time.monotonic() - began:.0f} s")
        admin = KafkaAdminClient(bootstrap_servers=[self.server.address])
        admin.create_topics({JOB: {"num_partitions": self.partitions}}, wait_for_metadata=True)
        admin.close()
        self._broker = Broker(ConnectionSettings({"bootstrap_servers": [self.server.address]}))
        ensure_tables(self.settings)
        self.feed = self.process(
            "feed", "examples.orders.feed", "--topic", JOB, "--rate", str(RATE),
            "--partitions", str(self.partitions), "--out", str(self.out),
        )  # fmt: skip

    def close(self) -> None:
        """End every process."""
        for process in self._processes:
            stop(process)
        if self._broker is not None:
            self._broker.close()
        self.server.stop()

    def process(self, name: str, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a Python module; its output goes to a log in the folder."""
        with (self.folder / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdout=log, stderr=log, env=self._environment(), cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        self._processes.append(started)
        return started

    def start_consumers(self, assignor: str, group: str, out: Path) -> None:
        """Start one consumer for each node."""
        out.mkdir(exist_ok=True)
        first = "earliest" if assignor == "plan" else "latest"
        for node in self.nodes:
            self.consumers[node] = self.process(
                f"{group}-{node}", "examples.orders.consumer", "--job", JOB, "--topic", JOB,
                "--node", node, "--group", group, "--assignor", assignor, "--out", str(out),
                "--cost-us", str(COST_US), "--first", first, "--session-ms", str(SESSION_MS),
            )  # fmt: skip

    def stop_consumers(self) -> None:
        """End the consumers that run."""
        for process in self.consumers.values():
            stop(process)
        self.consumers.clear()

    def program(self, name: str) -> None:
        """Run a program of the pipeline to its end, as its task would.

        Raises:
            EmbeddedError: it failed; the error has the end of its output.
        """
        began = time.monotonic()
        conf = [part for item in submit_conf(self.settings).items()
                for part in ("--conf", "=".join(item))]  # fmt: skip
        answer = subprocess.run(
            [str(Path(sys.executable).parent / "spark-submit"), *conf,
             str(ROOT / "spark_jobs" / f"{name}.py"), "--job", JOB, "--run-id",
             f"demo-{self._runs}"],
            env=self._environment(), cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        print_progress(f"  {name}: {time.monotonic() - began:.0f} s")
        if answer.returncode != 0:
            lines = (answer.stdout + answer.stderr).splitlines()[-15:]
            raise EmbeddedError("\n".join([f"{name} ended with {answer.returncode}:", *lines]))

    def publish_plan(self, *, measures: bool) -> Head:
        """Run the pipeline once; the new head.

        Raises:
            EmbeddedError: a program failed, or no new version was published.
        """
        before = read_head(self.settings, JOB)
        self._runs += 1
        for name in (*(["measure"] if measures else []), "condense", "solve", "publish"):
            self.program(name)
        head = read_head(self.settings, JOB)
        if head is None or (before is not None and head.version == before.version):
            raise EmbeddedError("the run made no new version; see plans.log")
        return head

    def wait(self, what: str, look: Callable[[], T | None], every_s: float = 1.0) -> T:
        """Wait for something as long as orders are processed."""
        return wait_while_progressing(
            look, lambda: self._windows_seen(), what,
            lambda: self.speed.limit(QUIET_LIMIT_S), every_s,
        )  # fmt: skip

    def owners(self, group: str) -> dict[int, str]:
        """The node of each partition, for consumers with Ballast's assignor."""
        if self._broker is None:
            return {}
        try:
            view = self._broker.group(group)
        except KafkaError:
            return {}
        if view.state != "Stable":
            return {}
        return {number: node for (_, number), node in view.node_by_partition.items()}

    def ack(self, version: int, status: str) -> Ack | None:
        """The acknowledgement of a version, if it is there."""
        acks = read_acks(self.settings, JOB, version)
        return next((each for each in acks if each.status == status), None)

    def whole_windows(self, after: int = 0) -> int:
        """Windows with a row of every partition, from a window's number on."""
        rows = read_rows(self.settings, "metrics.key_groups", job=JOB, columns=["first_batch_id"])
        numbers = rows["first_batch_id"].to_pylist()
        return sum(
            numbers.count(number) == self.partitions for number in set(numbers) if number >= after
        )

    def _windows_seen(self) -> int:
        return sum(log.stat().st_size for log in self.folder.glob("*/*.log"))

    def _environment(self) -> Mapping[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "BALLAST_HOME": str(self.settings.home),
            "BALLAST_WAREHOUSE": self.settings.warehouse,
            "BALLAST_POLICIES": str(self.settings.policies),
            "BALLAST_JARS": str(self.settings.jars),
            "BALLAST_SPARK_MASTER": self.settings.spark_master,
            "BALLAST_KAFKA_BOOTSTRAP_SERVERS": self.server.address,
        }


def main() -> int:
    """Runs the demonstration; returns 0 only if it showed everything that it must show."""
    demo = KafkaDemo()
    try:
        with ending_signals_raise():
            return _run(demo)
    except Stopped as stopped:
        print_progress("stopped")
        return stopped.signal_number + 128
    except BallastError as error:
        print(f"ballast: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    finally:
        demo.close()


def _run(demo: KafkaDemo) -> int:
    began = time.monotonic()
    demo.start()
    found = _show(demo, {name: _without_plan(demo, name) for name in ASSIGNORS})
    print("\n" + "\n".join(report_lines(found)) + "\n", flush=True)
    problems = shortcomings(found)
    for problem in problems:
        print(f"NOT SHOWN: {problem}", flush=True)
    print_progress(
        f"{'failed' if problems else 'done'} after {time.monotonic() - began:.0f} s; see the plans "
        f"with `BALLAST_WAREHOUSE={demo.settings.warehouse} .venv/bin/ballast plans list {JOB}`"
    )
    return 1 if problems else 0


def _without_plan(demo: KafkaDemo, assignor: str) -> float:
    """The load distance of the consumers under one of Kafka's assignors."""
    out = demo.folder / assignor
    demo.start_consumers(assignor, f"{JOB}-{assignor}", out)

    def every_partition_is_read() -> bool | None:
        recent = [o for o in processed_orders(out) if o.at > time.time() - WATCHED_S]
        return len({order.partition for order in recent}) == demo.partitions or None

    demo.wait(f"consumers under {assignor} read every partition", every_partition_is_read)
    since = time.time()
    time.sleep(BASELINE_S)
    demo.stop_consumers()
    distance = load_distance_pct(
        processed_orders(out), demo.nodes, since, since + BASELINE_S
    )  # fmt: skip
    print_progress(f"load distance under {assignor}: {distance:.1f} %")
    return distance


def _show(demo: KafkaDemo, without_plan: Mapping[str, float]) -> KafkaFindings:
    demo.process("engine", "ballast.cli.main", "engine", "run", JOB)
    demo.start_consumers("plan", JOB, demo.out)
    needed = demo.policy.windows_per_period + 2
    print_progress(f"waiting for {needed} windows of the group under Ballast's assignor")
    demo.wait("windows of every partition", lambda: demo.whole_windows() >= needed or None)
    head, ack, gaps = _first_plan(demo)
    print_progress(f"waiting for a period of windows under version {head.version}")
    period = demo.policy.windows_per_period
    demo.wait("windows under the plan", lambda: demo.whole_windows(ack.batch_id) >= period or None)
    doubled = _doubled(demo)
    killed_at, second = _drain_and_kill(demo)
    ownerless = demo.partitions - len(demo.wait(
        "the group is stable after the kill", lambda: demo.owners(JOB) or None
    ))  # fmt: skip
    end = _end(demo)
    plan = read_plan(demo.settings, JOB, head.plan_id)
    promises = {p.figure: p for p in read_promises(demo.settings, JOB, head.plan_id)}
    outcomes = {o.figure: o for o in read_outcomes(demo.settings, JOB, head.version)}
    promise = promises["load_distance_pct"]
    return KafkaFindings(
        without_plan_pct=without_plan,
        before_pct=plan.load_distance_before_pct,
        promised_pct=promise.expected,
        highest_pct=promise.highest,
        measured_pct=outcomes["load_distance_pct"].measured,
        moves=ack.moved_key_groups,
        pause_ms=ack.pause_ms,
        gaps=gaps,
        fed=end.fed,
        doubled_before_kill=doubled,
        lost=end.lost,
        doubled=end.doubled,
        killed_in_take_up=killed_at < second.acked_at.timestamp(),
        ownerless_partitions=ownerless,
    )


def _first_plan(demo: KafkaDemo) -> tuple[Head, Ack, Gaps]:
    """Makes and follows the first plan; the gaps around its take-up."""
    before = demo.owners(JOB)
    head = demo.publish_plan(measures=False)
    published = head.published_at.timestamp()
    ack = demo.wait(
        f"version {head.version} is taken up", lambda: demo.ack(head.version, "applied")
    )
    accepted = demo.ack(head.version, "accepted")
    since = accepted.acked_at.timestamp() if accepted else published
    print_progress(f"version {head.version} applied, pause {ack.pause_ms:.0f} ms")
    time.sleep(max(0.0, since + WATCHED_S - time.time()))
    orders = processed_orders(demo.out)
    moved = {
        row.key_group
        for row in read_assignment(demo.settings, JOB, head.plan_id)
        if before.get(row.key_group) != row.node_id
    }
    control = longest_gaps_ms(orders, since - WATCHED_S, since)
    during = longest_gaps_ms(orders, since, since + WATCHED_S)
    stayed = [ms for partition, ms in during.items() if partition not in moved]
    gaps = Gaps(
        max(control.values()),
        max(ms for partition, ms in during.items() if partition in moved),
        max(stayed, default=None),
    )
    return head, ack, gaps


def _doubled(demo: KafkaDemo) -> int:
    """Records that were processed twice so far, without a crash."""
    orders = processed_orders(demo.out)
    return len(orders) - len({(order.partition, order.number) for order in orders})


def _drain_and_kill(demo: KafkaDemo) -> tuple[float, Ack]:
    """A second plan empties a node; its consumer is killed while the group takes the plan up."""
    victim = demo.nodes[-1]
    file = demo.settings.policies / f"{JOB}.yaml"
    policy = yaml.safe_load(file.read_text(encoding="utf-8"))
    policy["nodes"][-1]["draining"] = True
    file.write_text(yaml.safe_dump(policy), encoding="utf-8")
    print_progress(f"{victim} drains")
    head = demo.publish_plan(measures=True)
    demo.wait("the second plan is accepted",
              lambda: demo.ack(head.version, "accepted"), every_s=0.02)  # fmt: skip
    os.kill(demo.consumers[victim].pid, signal.SIGKILL)
    killed_at = time.time()
    print_progress(f"{victim} was killed during the take-up of version {head.version}")
    second = demo.wait("the second plan is taken up", lambda: demo.ack(head.version, "applied"))
    return killed_at, second


def _end(demo: KafkaDemo) -> Exactness:
    """Stops the feed, waits until all was processed, and compares."""
    stop(demo.feed)

    def complete() -> Exactness | None:
        found = exactness(demo.out, processed_orders(demo.out))
        return found if found.lost == 0 else None

    try:
        demo.wait("every order is processed", complete)
    except BallastError as error:
        print_progress(str(error))
    demo.stop_consumers()
    return exactness(demo.out, processed_orders(demo.out))


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process by SIGTERM, and by SIGKILL if it does not end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
