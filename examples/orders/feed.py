"""Writes orders: customers by a Zipf law, numbered within each partition, at a steady rate.

    python -m examples.orders.feed --topic orders --rate 400 --out FOLDER

Each record is ``number customer``, the number within its partition. At its end, by SIGTERM, the
program writes how many records each partition has into ``FOLDER/fed.json``.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from kafka import KafkaProducer

from ballast.engines.kafka import connection_settings

CUSTOMERS = 2_000
EXPONENT = 1.1
BURST_S = 0.02


def customer_weights(customers: int = CUSTOMERS, exponent: float = EXPONENT) -> list[float]:
    """How often each customer orders, most often first, as running sums."""
    return list(accumulate(1.0 / rank**exponent for rank in range(1, customers + 1)))


def partition_of(customer: int, partitions: int) -> int:
    """The partition of a customer's orders."""
    return zlib.crc32(f"customer-{customer}".encode()) % partitions


def main(arguments: Sequence[str] | None = None) -> int:
    """Feeds until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=float, default=400.0, help="records a second")
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    producer = KafkaProducer(**connection_settings(), acks="all", linger_ms=5)
    fed: Counter[int] = Counter()
    chosen, weights = random.Random(7), customer_weights()
    began, sent = time.monotonic(), 0
    while not stopping.wait(BURST_S):
        wanted = int((time.monotonic() - began) * args.rate)
        for customer in chosen.choices(range(CUSTOMERS), cum_weights=weights, k=wanted - sent):
            partition = partition_of(customer, args.partitions)
            value = f"{fed[partition]} customer-{customer}".encode()
            producer.send(args.topic, value=value, partition=partition)
            fed[partition] += 1
        sent = wanted
    producer.flush()
    producer.close()
    part = args.out / "fed.part"
    part.write_text(json.dumps({str(p): count for p, count in sorted(fed.items())}))
    part.replace(args.out / "fed.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
