"""The cost of a routing table of a million keys: bytes, and time per record compared with the hash.

    python -m bench.route_lookup [--keys 1000000] [--records 500000]

Every key is routed against its hash, so that each needs an entry of the table. Records are drawn
uniformly, which is the worst case for caches, and by Zipf's law. Both ways of routing hash the key.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from bench.common.runner import short_parser
from solvers.key_routing.key_bytes import fingerprint
from solvers.key_routing.routing_table import RoutingTable

SERVERS = 6
REPEATS = 5
ZIPF = 1.2


def key(number: int) -> bytes:
    return b"key-%d" % number


def table_of(n_keys: int) -> RoutingTable:
    """Build a table from fingerprints, because a dictionary of a million keys is not measured."""
    prints = np.array([fingerprint(key(i)) for i in range(n_keys)], dtype=np.uint64)
    prints = np.unique(prints)
    servers = (prints % np.uint64(SERVERS) + np.uint64(1)) % np.uint64(SERVERS)
    return RoutingTable(SERVERS, prints, servers.astype(np.uint16))


def nanoseconds_a_record(route: Callable[[], object], n_records: int) -> float:
    """Return the median time of some runs, after one warm-up run."""
    route()
    took = []
    for _ in range(REPEATS):
        started = time.perf_counter_ns()
        route()
        took.append(time.perf_counter_ns() - started)
    return statistics.median(took) / n_records


def main(arguments: list[str] | None = None) -> int:
    parser = short_parser(__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--records", type=int, default=500_000)
    args = parser.parse_args(arguments)
    table, plain = table_of(args.keys), RoutingTable.hashed(SERVERS)
    print(f"{len(table):,} keys: {table.n_bytes:,} bytes, {table.n_bytes / len(table):.1f} a key")
    rng = np.random.default_rng(0)
    drawn = {
        "evenly": rng.integers(0, args.keys, args.records),
        f"by Zipf's law, {ZIPF}": (rng.zipf(ZIPF, args.records) - 1) % args.keys,
    }
    print("| records drawn | hash, ns | table, ns | ratio |\n|---|---|---|---|")
    for how, numbers in drawn.items():
        records = [key(i) for i in numbers.tolist()]
        by_hash = nanoseconds_a_record(lambda r=records: plain.route_many(r), len(records))
        by_table = nanoseconds_a_record(lambda r=records: table.route_many(r), len(records))
        print(f"| {how} | {by_hash:.0f} | {by_table:.0f} | {by_table / by_hash:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
