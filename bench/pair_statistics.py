"""The cost of routing by key: statistics of keys as a share of a batch, lookups per record.

    python -m bench.pair_statistics [--batches 40] [--spark]

Batches of real flights run through the operators of the flights job on six nodes, without Spark
around them, with and without statistics in turn, under the same conditions. CPU times are of
the nodes' stages and, apart, of what the driver does with the statistics of a batch and a window.
Then the lookup of a key group in an operator's outlet: by hash, and by tables of up to a million
routes, for keys met for the first time in a task and for keys it remembers.

With ``--spark`` also what a batch of the source takes with tables of several sizes joined to it.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np

from ballast.contracts.policy import load_policy
from ballast.streaming.batch_figures import BatchFigures, figures_of_batch
from ballast.streaming.metrics_rows import key_pair_rows
from ballast.streaming.metrics_window import MetricsWindow
from ballast.streaming.node_task import (
    SOURCE,
    BatchWork,
    Delivery,
    Group,
    NodeReport,
    Pair,
    _Outlet,
    run_node,
    unpack,
)
from ballast.streaming.operators import Topology, build_topology
from ballast.streaming.routing import Placement, first_placement, key_group_of, node_indexes
from bench.common.runner import short_parser
from examples.flights.operators import FLIGHTS, Delay
from examples.flights.weather import flight_lines

ROOT = Path(__file__).resolve().parent.parent
RECORDS = 28_000  # records that the flights job gets a second
WINDOW_BATCHES = 5
WARM_UP = 3
ROUTES = (0, 1_000, 100_000, 1_000_000)
LOOKED_UP = 200_000
Inboxes = list[dict[Group, list[Delivery]]]


def main(argv: list[str] | None = None) -> int:
    parser = short_parser(__doc__)
    parser.add_argument("--batches", type=int, default=40, help="pairs of batches")
    parser.add_argument("--spark", action="store_true", help="also the join of the source")
    arguments = parser.parse_args(argv)
    statistics_cost(arguments.batches)
    lookup_cost()
    if arguments.spark:
        source_cost()
    return 0


def statistics_cost(batches: int) -> None:
    """Print the CPU time of a batch with and without statistics, and the part of the driver."""
    policy = load_policy(ROOT / "policies" / "flights.yaml")
    operators = [replace(operator, state_by_key=True) for operator in FLIGHTS.operators]
    topology = build_topology("flights", operators, policy)
    placement = first_placement(topology, policy)
    node_ids = tuple(node.id for node in policy.nodes)
    lines = flight_lines()
    with tempfile.TemporaryDirectory() as folder:
        work = BatchWork(topology, node_indexes(placement, topology, node_ids), node_ids, 0, folder)
        plain, counted, driver, seen = [], [], [], []
        for number in range(WARM_UP + batches):
            start = number * RECORDS % (len(lines) - RECORDS)
            inboxes = source(topology, work, lines[start : start + RECORDS])
            turns = [(plain, False), (counted, True)]
            for times, counts in turns if number % 2 else turns[::-1]:
                task = replace(work, batch_id=2 * number + counts, counts_keys=counts)
                began = time.thread_time()
                reports = run_batch(task, inboxes)
                times.append(time.thread_time() - began)
                if counts:
                    driver.append(driver_seconds(reports, topology, placement, node_ids))
                    seen.append(
                        figures_of_batch(number, reports, topology, placement, node_ids, {})
                    )
    plain, counted, driver = plain[WARM_UP:], counted[WARM_UP:], driver[WARM_UP:]
    ratios = np.array(counted) / np.array(plain) - 1
    print(f"{batches} batches of {RECORDS:,} flights, six nodes, medians of CPU time")
    print(f"  nodes without statistics {1e3 * median(plain):9.1f} ms a batch")
    print(f"  nodes with statistics    {1e3 * median(counted):9.1f} ms a batch, "
          f"{np.median(ratios):+.1%} (quartiles {np.quantile(ratios, 0.25):+.1%} to "
          f"{np.quantile(ratios, 0.75):+.1%})")  # fmt: skip
    print(f"  driver, for them alone   {1e3 * median(driver):9.1f} ms a batch, "
          f"{median(driver) / median(plain):+.1%}")  # fmt: skip
    print_window(seen[-WINDOW_BATCHES:])


def source(topology: Topology, work: BatchWork, lines: Sequence[str]) -> Inboxes:
    """Return the records of each node, as the shuffle of the source distributes them."""
    groups: dict[Group, list[Pair]] = {}
    for line in lines:
        fields = line.split(",", 12)
        key = fields[11] or fields[9] + fields[10]
        group = (0, key_group_of(key, topology.key_groups[0]))
        groups.setdefault(group, []).append((key, {"value": line}))
    inboxes: Inboxes = [{} for _ in work.node_ids]
    for group, pairs in groups.items():
        inboxes[work.owner(group)][group] = [Delivery(SOURCE, lambda pairs=pairs: list(pairs))]
    return inboxes


def run_batch(work: BatchWork, inboxes: Inboxes) -> list[NodeReport]:
    """Run all stages of a batch, one node after another."""
    reports = []
    for stage in range(work.topology.stages):
        following: Inboxes = [{} for _ in inboxes]
        for node, inbox in enumerate(inboxes):
            report, blocks = run_node(work, node, stage, inbox)
            reports.append(pickle.loads(pickle.dumps(report, protocol=5)))  # noqa: S301
            for block in blocks:
                content = Delivery(
                    block.sender, lambda p=block.payload: unpack(p), len(block.payload)
                )
                owner = work.owner(block.target)
                following[owner].setdefault(block.target, []).append(content)
        inboxes = following
    return reports


def driver_seconds(
    reports: list[NodeReport], topology: Topology, placement: Placement, node_ids: tuple[str, ...]
) -> float:
    """Return the CPU time that summing and writing the statistics adds to a batch."""
    bare = [replace(report, keys={}, pairs={}) for report in reports]
    seconds = []
    for some in (bare, reports):
        began = time.thread_time()
        measured = figures_of_batch(0, some, topology, placement, node_ids, {})
        json.dumps(measured.to_json(), separators=(",", ":"))
        seconds.append(time.thread_time() - began)
    return seconds[1] - seconds[0]


def print_window(measured: Sequence[BatchFigures]) -> None:
    """Print the cost of the last window's rows, and the share of the traffic they count exactly."""
    batches = tuple(measured)
    window = MetricsWindow(0, 1, batches, batches[-1])
    began = time.thread_time()
    rows = key_pair_rows("flights", window, datetime.now(UTC))
    print(f"  a window of {len(batches)} batches: {rows.num_rows:,} rows in "
          f"{1e3 * (time.thread_time() - began):.1f} ms, beside the batches")  # fmt: skip
    for (source_id, target_id), summary in window.pairs.items():
        counted = 1 - summary.others / summary.total
        print(f"    {source_id} -> {target_id}: {counted:.1%} of the records are in a row, "
              f"no other pair has more than {summary.missed}")  # fmt: skip


def lookup_cost() -> None:
    """Print the cost of a lookup in an outlet, for tables of several sizes."""
    draw = random.Random(7)
    print(f"\nkey group of a key in an outlet, ns a record; {LOOKED_UP:,} keys of 6 characters, "
          "all of them routed where there are as many routes")  # fmt: skip
    print(f"  {'routes':>10}{'first time':>12}{'again':>8}{'table':>10}{'pickled':>10}{'load':>9}")
    for size in ROUTES:
        tracemalloc.start()
        routes = {f"{number:06d}": number % 40 for number in range(size)}
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        sent = pickle.dumps(routes, protocol=5)
        began = time.perf_counter()
        pickle.loads(sent)  # noqa: S301
        load = time.perf_counter() - began
        keys = [f"{number:06d}" for number in draw.sample(range(1_000_000), LOOKED_UP)]
        first, again = lookup_ns(routes, keys)
        print(f"  {size:10,}{first:12.0f}{again:8.0f}{memory / 1e6:7.1f} MB"
              f"{len(sent) / 1e6:7.1f} MB{1e3 * load:6.0f} ms")  # fmt: skip


def lookup_ns(routes: dict[str, int], keys: list[str]) -> tuple[float, float]:
    """Return the time of a lookup of a new key and of a known key."""
    first, again = [], []
    for _ in range(5):
        outlet = _Outlet(1, _destination, 40, routes)
        # New strings, because a key from a record has no cached hash.
        for times in (first, again):
            fresh = [key[:3] + key[3:] for key in keys]
            times.append(_timed(lambda fresh=fresh, outlet=outlet: _look_up(outlet, fresh)))
    return 1e9 * min(first) / len(keys), 1e9 * min(again) / len(keys)


def _look_up(outlet: _Outlet, keys: list[str]) -> None:
    for key in keys:
        outlet.group_of(key)


def _timed(action: Callable[[], object]) -> float:
    began = time.thread_time()
    action()
    return time.thread_time() - began


def _destination(delay: Delay) -> str:
    return delay.dest


def source_cost() -> None:
    """Print the time to route a batch of the source, with joined tables of several sizes."""
    from pyspark.sql import SparkSession

    from ballast.contracts.settings import load_settings
    from ballast.contracts.spark import spark_conf
    from ballast.streaming.spark_stages import SentRoutes, routed_source

    policy = load_policy(ROOT / "policies" / "flights.yaml")
    topology = build_topology("flights", FLIGHTS.operators, policy)
    hashed = first_placement(topology, policy)
    node_ids = tuple(node.id for node in policy.nodes)
    work = BatchWork(topology, node_indexes(hashed, topology, node_ids), node_ids, 0, "")
    builder = SparkSession.builder
    for key, value in spark_conf(load_settings()).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    lines = spark.createDataFrame([(line,) for line in flight_lines()[:RECORDS]], "value string")
    lines = lines.persist()
    print(f"\nrouting {RECORDS:,} records of the source on Spark, medians of wall time")
    for size in ROUTES:
        routes = {f"N{number:06d}": number % 40 for number in range(size)}
        began = time.perf_counter()
        sent = SentRoutes(
            spark, replace(hashed, routes={"extract_delays": routes}), "extract_delays"
        )
        to_send = time.perf_counter() - began

        def batch(joined: object = sent.source) -> None:
            routed = routed_source(lines, FLIGHTS.source_key, work, joined)  # type: ignore[arg-type]
            routed.write.format("noop").mode("overwrite").save()

        walls = [_wall(batch) for _ in range(8)][3:]
        print(f"  {size:10,} routes: {1e3 * median(walls):7.0f} ms a batch, "
              f"{1e3 * to_send:6.0f} ms once a version")  # fmt: skip
        sent.forget()
    spark.stop()


def _wall(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
