"""A consumer group under a plan, on one machine: ``make demo-kafka``.

Starts a broker, and three consumers of skewed orders under each of Kafka's own assignors: their
load is measured. Then three consumers with Ballast's lines and the engine service run, the programs
of the pipeline make a plan from their metrics, and the next run measures it. Ends with a table.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

import yaml
from kafka.admin import KafkaAdminClient

from ballast.contracts.errors import BallastError
from ballast.contracts.log_events import ACK_APPLIED, ACK_REFUSED
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.records import Ack, Head
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_acks, read_head, read_outcomes, read_promises
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from ballast.streaming.job_lock import JobLock
from embedded import checks
from embedded.airflow import ROOT
from embedded.busy_processes import spinning_processes
from embedded.errors import EmbeddedError
from embedded.kafka_broker import KafkaBroker
from embedded.kafka_processes import (
    GATE_FAILED,
    JAVA,
    JOB,
    KAFKA_JARS,
    PLAN,
    PYTHON,
    TOPIC,
    KafkaProcesses,
    OrdersLoad,
)
from embedded.kafka_report import KafkaFindings, kafka_report_lines, kafka_shortcomings
from embedded.machine_speed import wait_while_progressing
from embedded.processes import Stopped, ending_signals_raise
from embedded.progress import print_progress
from embedded.stack import MEMORY_EVERY_S, memory_in_use
from examples.orders.check import Exactness, ProcessedOrder, exactness, processed_orders
from examples.orders.load import (
    Gaps,
    Span,
    load_distance_pct,
    longest_gaps,
    node_of_partitions,
)

T = TypeVar("T")
FIGURE = "load_distance_pct"
ASSIGNORS = ("range", "round-robin", "cooperative-sticky")
COMPARED_WINDOWS = 9
"""Windows in which Kafka's own assignors are measured."""
WARM_UP_WINDOWS = 2
MOST_RUNS = 3
"""How often a plan is asked for while the gate finds metrics missing."""
QUIET_LIMIT_S = 300.0
"""How long nothing may happen, on a machine of any speed."""
AROUND_TAKE_UP_S = 2.0


class KafkaDemo:
    """The steps of the demonstration, in their order.

    Args:
        settings: where tables and policy are.
        processes: starts and stops consumers, feed, service and programs.
        client: what the consumers are written in.
    """

    def __init__(self, settings: Settings, processes: KafkaProcesses, client: str) -> None:
        self._settings, self._processes, self._client = settings, processes, client
        self._policy: JobPolicy = load_policy(settings.policies / f"{JOB}.yaml")
        self._nodes = tuple(node.id for node in self._policy.nodes)
        self._peak_memory_bytes = 0
        self._memory_measured_at = 0.0

    def show(self) -> KafkaFindings:
        """Run all steps.

        Raises:
            EmbeddedError: a process or a program failed, or the group refused the plan.
            WaitedTooLong: nothing happened for too long.
        """
        feed = self._processes.start_feed()
        by_assignor = self._measure_assignors()
        members = [self._processes.start_member(PLAN, node) for node in self._nodes]
        service = self._processes.start_service()
        print_progress(
            f"three {self._client} consumers that follow plans started, and `ballast engine run`"
        )
        self._wait_for_windows(self._policy.windows_per_period + WARM_UP_WINDOWS)
        head = self._plan()
        ack = self._wait_for_take_up(head)
        self._wait_for_windows(self._policy.windows_per_period, after=ack.batch_id)
        self._run("measure", "measured")
        outcome = _figure(read_outcomes(self._settings, JOB, head.version))
        promise = _figure(read_promises(self._settings, JOB, head.plan_id))
        self._processes.stop([feed])
        exact = self._wait_until_processed()
        self._processes.stop([*members, service])
        orders = processed_orders(self._processes.folder_of(PLAN))
        measured = Span(outcome.period_start_at.timestamp(), outcome.period_end_at.timestamp())
        take_up, control = gaps_of_take_up(orders, head, ack)
        return KafkaFindings(
            client=self._client.capitalize(), by_assignor=by_assignor,
            promise=promise, outcome=outcome,
            consumers_pct=load_distance_pct(orders, self._nodes, measured), ack=ack,
            take_up=take_up, control=control, peak_memory_bytes=self._peak_memory_bytes,
            # After all have ended: an order that was processed twice is seen.
            exactness=replace(exact, doubled=self._exactness().doubled),
        )  # fmt: skip

    def _measure_assignors(self) -> dict[str, float]:
        """Load distance under Kafka's own assignors, all in the same windows."""
        members = [
            self._processes.start_member(assignor, node)
            for assignor in ASSIGNORS
            for node in self._nodes
        ]
        print_progress(f"measuring groups under {', '.join(ASSIGNORS)}")
        for assignor in ASSIGNORS:
            self._wait_until_busy(assignor)
        span = self._next_windows(COMPARED_WINDOWS)
        self._wait("the windows have passed", lambda: time.time() >= span.end or None, time.time)
        self._processes.stop(members)
        found = {
            name: load_distance_pct(self._orders(name), self._nodes, span) for name in ASSIGNORS
        }
        for name, value in found.items():
            print_progress(f"load distance under {name}: {value:.2f} %")
        return found

    def _orders(self, assignor: str) -> list[ProcessedOrder]:
        return processed_orders(self._processes.folder_of(assignor))

    def _wait_until_busy(self, assignor: str) -> None:
        def busy() -> set[str]:
            return {order.node for order in self._orders(assignor)}

        self._wait(
            f"every consumer under {assignor} processes orders",
            lambda: len(busy()) == len(self._nodes) or None, busy,
        )  # fmt: skip

    def _next_windows(self, count: int) -> Span:
        """The next windows by the clock, after one of grace."""
        length = self._policy.window_s
        start = length * (time.time() // length + 2)
        return Span(start, start + count * length)

    def _wait_for_windows(self, count: int, after: int = -1) -> None:
        """Wait until so many windows have every partition and every node."""
        first = after + 1
        print_progress(f"waiting for {count} whole windows")

        def whole() -> int:
            rows = read_rows(self._settings, "metrics.key_groups", job=JOB).to_pylist()
            partitions: dict[int, int] = {}
            for row in rows:
                number = row["first_batch_id"]
                partitions[number] = partitions.get(number, 0) + (number >= first)
            wanted = sum(operator.key_groups for operator in self._policy.operators)
            return sum(found == wanted for found in partitions.values())

        self._wait(f"{count} whole windows", lambda: whole() >= count or None, whole)

    def _plan(self) -> Head:
        """Make a plan and put it in force; while metrics are missing, try again."""
        for number in range(MOST_RUNS):
            run_id = f"demo-{number}"
            if self._run("condense", run_id) == GATE_FAILED:
                print_progress("metrics are missing; trying again after some windows")
                self._wait_for_windows(self._policy.windows_per_period, after=self._window_number())
                continue
            self._run("solve", run_id)
            self._run("publish", run_id)
            head = read_head(self._settings, JOB)
            if head is not None:
                return head
            raise EmbeddedError("the run made no plan; see the logs of solve and publish")
        raise EmbeddedError("metrics stayed incomplete; see condense.log and service.log")

    def _window_number(self) -> int:
        return int(time.time() // self._policy.window_s)

    def _run(self, program: str, run_id: str) -> int:
        began = time.monotonic()
        code = self._processes.run_program(program, run_id)
        print_progress(f"{program}: {time.monotonic() - began:.0f} s")
        self._look_after()
        return code

    def _wait_for_take_up(self, head: Head) -> Ack:
        def look() -> Ack | None:
            acks = read_acks(self._settings, JOB, head.version)
            ends = [ack for ack in acks if ack.status in (ACK_APPLIED, ACK_REFUSED)]
            return ends[0] if ends else None

        ack = self._wait(f"version {head.version} is taken up", look, lambda: 0)
        if ack.status == ACK_REFUSED:
            raise EmbeddedError(f"version {head.version} is refused: {ack.reason}")
        print_progress(f"version {head.version} taken up, {ack.moved_key_groups} partitions moved")
        return ack

    def _exactness(self) -> Exactness:
        folder = self._processes.folder_of(PLAN)
        return exactness(folder, processed_orders(folder))

    def _wait_until_processed(self) -> Exactness:
        print_progress("waiting until every order is processed")
        self._wait(
            "every order is processed",
            lambda: self._exactness().lost == 0 or None, lambda: self._exactness().lost,
        )  # fmt: skip
        return self._exactness()

    def _wait(self, what: str, look: Callable[[], T | None], progress: Callable[[], object]) -> T:
        def watched() -> T | None:
            self._look_after()
            return look()

        return wait_while_progressing(watched, progress, what, lambda: QUIET_LIMIT_S)

    def _look_after(self) -> None:
        self._processes.check()
        # Summing memory walks every process's pages, so it is done rarely.
        if time.monotonic() - self._memory_measured_at >= MEMORY_EVERY_S:
            self._memory_measured_at = time.monotonic()
            self._peak_memory_bytes = max(self._peak_memory_bytes, memory_in_use())


def gaps_of_take_up(orders: Sequence[ProcessedOrder], head: Head, ack: Ack) -> tuple[Gaps, Gaps]:
    """Longest gaps around the take-up of a version, and in a control time before it."""
    span = Span(
        head.published_at.timestamp() - AROUND_TAKE_UP_S,
        ack.acked_at.timestamp() + AROUND_TAKE_UP_S,
    )
    before = span.moved_back(span.end - span.start)
    old = node_of_partitions(orders, before)
    new = node_of_partitions(orders, Span(span.end, float("inf")))
    moved = {partition for partition in new if old.get(partition) != new[partition]}
    return longest_gaps(orders, moved, span), longest_gaps(orders, moved, before)


def _figure(rows: Sequence[T]) -> T:
    found = [row for row in rows if getattr(row, "figure", "") == FIGURE]
    if not found:
        raise EmbeddedError(f"the version has no figure {FIGURE}; see measure.log")
    return found[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demonstration; returns 0 only if it showed everything that it must show."""
    args = _parser().parse_args(arguments)
    try:
        with ending_signals_raise(), spinning_processes(args.spin):
            return _run(args.client)
    except Stopped as stopped:
        print_progress("stopped")
        return stopped.signal_number + 128
    except BallastError as error:
        print(f"ballast: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _run(client: str) -> int:
    checks.check_java()
    began, settings = time.monotonic(), demo_settings(load_settings())
    load = OrdersLoad(client=client)
    with ExitStack() as stack:
        stack.enter_context(JobLock(settings.home.with_suffix(".lock"), JOB))
        _start_afresh(settings, client)
        broker = KafkaBroker(KAFKA_JARS, settings.home / "broker")
        stack.callback(broker.stop)
        broker.start()
        print_progress(f"broker started at {broker.address}")
        _make_topic(broker.address, load.partitions)
        processes = KafkaProcesses(settings, broker.address, load)
        stack.callback(processes.stop_all)
        found = KafkaDemo(settings, processes, client).show()
    print("\n" + "\n".join(kafka_report_lines(found)) + "\n", flush=True)
    problems = kafka_shortcomings(found)
    for problem in problems:
        print(f"NOT SHOWN: {problem}", flush=True)
    print_progress(
        f"{'failed' if problems else 'done'} after {time.monotonic() - began:.0f} s; see the plan "
        f"with `BALLAST_HOME={settings.home} BALLAST_POLICIES={settings.policies} "
        f".venv/bin/ballast plans show {JOB}`"
    )
    return 1 if problems else 0


def demo_settings(settings: Settings) -> Settings:
    """Settings with a home and tables of the demonstration's own."""
    home = settings.home / "demo-kafka"
    return replace(
        settings, home=home, warehouse=str(home / "warehouse"), policies=home / "policies"
    )


def _start_afresh(settings: Settings, client: str) -> None:
    """Removes what an earlier demonstration left, and makes its folders and tables."""
    shutil.rmtree(settings.home, ignore_errors=True)
    settings.policies.mkdir(parents=True)
    source = ROOT / "examples" / "orders" / f"{JOB}.yaml"
    policy = yaml.safe_load(source.read_text(encoding="utf-8"))
    policy["engine"]["clients"] = client
    text = yaml.safe_dump(policy, sort_keys=False)
    (settings.policies / source.name).write_text(text, encoding="utf-8")
    ensure_tables(settings)


def _make_topic(address: str, partitions: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=[address])
    try:
        admin.create_topics({TOPIC: {"num_partitions": partitions}}, wait_for_metadata=True)
    finally:
        admin.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo-kafka", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--client", choices=(PYTHON, JAVA), default=PYTHON, help="what the consumers are written in"
    )
    parser.add_argument(
        "--spin", type=int, choices=range(9), default=0, metavar="N",
        help="also start N processes, 0 to 8, that keep processors busy until the end",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
