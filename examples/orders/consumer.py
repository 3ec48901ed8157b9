"""One consumer of the group: counts the orders of each customer.

    python -m examples.orders.consumer --node node-0 --out FOLDER

With ``--assignor plan`` it follows the plans of job ``orders``: the lines marked with (1) to (3)
are all that Ballast needs. Every processed order is a line in ``FOLDER/<node>-<pid>.log``:
partition, offset, number within the partition, time, and CPU milliseconds.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import TopicPartition

from ballast.engines.kafka import GroupMember, connection_settings
from ballast.engines.kafka.coordinator_access import CoordinatorAccess

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "round-robin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
Batches = Iterator[tuple[TopicPartition, list[Any]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Consumes until SIGTERM or Ctrl-C."""
    args = _parser().parse_args(arguments)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    log = args.out / f"{args.node}-{os.getpid()}.log"
    with log.open("w", encoding="utf-8") as lines:
        if args.assignor == "plan":
            _follow_plans(args, stopping, lines)
        else:
            _without_plans(args, stopping, lines)
    return 0


def _follow_plans(args: argparse.Namespace, stopping: threading.Event, lines: TextIO) -> None:
    connection = connection_settings()
    member = GroupMember(args.job, node_id=args.node, connection=connection)  # (1)
    consumer = _consumer(args, member.assignor)  # (2)
    member.subscribe(consumer, [args.topic])  # (3)
    counts: Counter[str] = Counter()
    try:
        while not stopping.is_set():
            for partition, records in member.batches(timeout_ms=args.poll_ms, max_records=50):
                _process(partition, records, counts, lines, args.cost_us)
    finally:
        member.close()


def _without_plans(args: argparse.Namespace, stopping: threading.Event, lines: TextIO) -> None:
    consumer = _consumer(args, ASSIGNORS[args.assignor], enable_auto_commit=True)
    consumer.subscribe([args.topic])
    access = CoordinatorAccess(consumer)
    counts: Counter[str] = Counter()
    try:
        while not stopping.is_set():
            for partition, records in consumer.poll(args.poll_ms, max_records=50).items():
                _process(partition, records, counts, lines, args.cost_us)
            # A fault of kafka-python (ADR 75): a consumer that it expels would be compared as idle.
            access.finish_half_join()
    finally:
        consumer.close()


def _consumer(
    args: argparse.Namespace, assignor: Any, *, enable_auto_commit: bool = False
) -> KafkaConsumer:
    return KafkaConsumer(
        **connection_settings(), group_id=args.group, client_id=args.node,
        partition_assignment_strategy=[assignor], enable_auto_commit=enable_auto_commit,
        auto_offset_reset=args.first, fetch_max_wait_ms=100,
        heartbeat_interval_ms=500, session_timeout_ms=args.session_ms,
    )  # fmt: skip


def _process(
    partition: TopicPartition,
    records: Sequence[Any],
    counts: Counter[str],
    lines: TextIO,
    cost_us: int,
) -> None:
    for record in records:
        began = time.thread_time()
        number, customer = record.value.decode().split(" ")
        counts[customer] += 1
        _work(began + cost_us / 1e6)
        used_ms = 1000 * (time.thread_time() - began)
        lines.write(
            f"{partition.partition} {record.offset} {number} {time.time():.4f} {used_ms:.3f}\n"
        )
    # Before the offsets are committed, so that a killed process has reported what it committed.
    lines.flush()


def _work(until: float) -> None:
    """Uses the processor until the thread has used it for so long."""
    while time.thread_time() < until:
        pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", default="orders")
    parser.add_argument("--node", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="orders")
    parser.add_argument("--assignor", choices=["plan", *ASSIGNORS], default="plan")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cost-us", type=int, default=300, help="CPU time of a record")
    parser.add_argument("--first", choices=["earliest", "latest"], default="earliest")
    parser.add_argument("--poll-ms", type=int, default=200)
    parser.add_argument("--session-ms", type=int, default=10_000)
    return parser


if __name__ == "__main__":
    sys.exit(main())
