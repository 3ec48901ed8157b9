"""Compares what the consumers of a group processed with what was fed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessedOrder:
    """A line of a consumer's log."""

    node: str
    partition: int
    offset: int
    number: int
    at: float
    cpu_ms: float


@dataclass(frozen=True)
class Exactness:
    """What was processed too rarely and too often."""

    fed: int
    lost: int
    doubled: int


def processed_orders(folder: Path) -> list[ProcessedOrder]:
    """Every order that a consumer processed, in no order; a line that was cut off is left out."""
    found = []
    for log in sorted(folder.glob("*-*.log")):
        node = log.stem.rpartition("-")[0]
        for line in log.read_text(encoding="utf-8").splitlines(keepends=True):
            fields = line.split()
            if len(fields) == 5 and line.endswith("\n"):
                partition, offset, number = map(int, fields[:3])
                found.append(
                    ProcessedOrder(node, partition, offset, number, *map(float, fields[3:]))
                )
    return found


def exactness(folder: Path, orders: Iterable[ProcessedOrder]) -> Exactness:
    """How many of the orders that were fed into each partition are missing, and how many twice."""
    fed = {int(p): count for p, count in json.loads((folder / "fed.json").read_text()).items()}
    times = Counter((order.partition, order.number) for order in orders)
    every = {(p, number) for p, count in fed.items() for number in range(count)}
    return Exactness(
        len(every),
        len(every - times.keys()),
        sum(count - 1 for count in times.values()),
    )
