"""Compares what the consumers of a group processed with what was fed: lost, doubled, gaps."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
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


def longest_gaps_ms(
    orders: Iterable[ProcessedOrder], since: float, until: float
) -> dict[int, float]:
    """The longest time without a processed order, of each partition, between two times."""
    at: Mapping[int, list[float]] = defaultdict(list)
    for order in orders:
        if since <= order.at <= until:
            at[order.partition].append(order.at)
    gaps = {}
    for partition, times in at.items():
        edges = sorted([since, *times, until])
        pairs = pairwise(edges)
        gaps[partition] = 1000 * max(after - before for before, after in pairs)
    return gaps


def load_distance_pct(
    orders: Iterable[ProcessedOrder], nodes: Iterable[str], since: float, until: float
) -> float:
    """The load distance of the nodes by the CPU time of orders between two times."""
    cpu = dict.fromkeys(nodes, 0.0)
    for order in orders:
        if since <= order.at < until:
            cpu[order.node] += order.cpu_ms
    mean = sum(cpu.values()) / len(cpu)
    return 100 * max(abs(used - mean) for used in cpu.values()) / mean if mean else 0.0
