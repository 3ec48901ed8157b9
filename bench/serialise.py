"""The cost of sending a record to another node: CPU to serialise and deserialise, by block size.

    python -m bench.serialise [--repeat 15]

Real flights go through the operators of the real jobs, one batch at the default rate of the
reference job. The records that would be sent if every edge went to another node are packed and
unpacked by the functions of the library (ballast.streaming.node_task), by pair of key groups.
Figures are medians of the repetitions with the quartiles: CPU time of this thread, with garbage
collection off as on the nodes. Building Arrow rows and Spark's shuffle are not included, because no
key group is charged for them. The two constants at the end are the costs that a plan needs.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ballast.contracts.policy import JobPolicy, load_policy
from ballast.streaming import StreamingJob
from ballast.streaming.node_task import Pair, pack, unpack
from ballast.streaming.operators import build_topology
from bench.real_jobs.blocks import BlockFlow, Edge, flow_of
from examples.flights.__main__ import RATE, TRIGGER_S
from examples.flights.operators import FLIGHTS
from examples.flights.real_jobs import REAL_JOBS, real_job_policy
from examples.flights.weather import merged_lines

ROOT = Path(__file__).resolve().parents[1]
SIZES = (1, 2, 5, 10, 30, 100, 300, 1000)
REPEAT = 15
T = TypeVar("T")
FIRST_LINE = 100_000
"""Where the batch begins: in spring, with every airport and most airplanes in it."""


@dataclass(frozen=True)
class Spread:
    """CPU microseconds a record: median and quartiles of the repetitions."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        low, median, high = statistics.quantiles(values, n=4)
        return cls(median, low, high)

    def text(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


@dataclass(frozen=True)
class RecordCost:
    """The cost of sending and of receiving one record of some blocks."""

    records: int
    blocks: int
    send: Spread
    receive: Spread

    @property
    def records_per_block(self) -> float:
        return self.records / self.blocks


def measure(blocks: Sequence[list[Pair]], repeat: int) -> RecordCost:
    """Pack and unpack all blocks repeatedly, alternately in each repetition."""
    records = sum(map(len, blocks))
    send, receive = [], []
    with _collector_off():
        for _ in range(repeat):
            seconds, payloads = _timed(lambda: [pack(pairs) for pairs in blocks])
            send.append(1e6 * seconds / records)
            # The records of a block are freed before the next one is opened, as on a node.
            seconds, _ = _timed(lambda sent=payloads: sum(len(unpack(data)) for data in sent))
            receive.append(1e6 * seconds / records)
    return RecordCost(records, len(blocks), Spread.of(send), Spread.of(receive))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.thread_time()
    done = work()
    return time.thread_time() - began, done


@contextmanager
def _collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def edge_costs(flow: BlockFlow, repeat: int) -> dict[Edge, RecordCost]:
    return {edge: measure(blocks, repeat) for edge, blocks in flow.blocks.items()}


def overall(costs: Sequence[RecordCost]) -> tuple[float, float]:
    """CPU seconds per record sent and per record received, each edge weighted by its records."""
    records = sum(cost.records for cost in costs)
    send = sum(cost.send.median * cost.records for cost in costs) / records
    receive = sum(cost.receive.median * cost.records for cost in costs) / records
    return send * 1e-6, receive * 1e-6


def by_size(pairs: Sequence[Pair], sizes: Sequence[int], repeat: int) -> dict[int, RecordCost]:
    """The same records in blocks of other sizes."""
    return {
        size: measure([list(pairs[i : i + size]) for i in range(0, len(pairs), size)], repeat)
        for size in sizes
    }


def per_block_and_record(costs: dict[int, RecordCost]) -> tuple[float, float]:
    """Microseconds per block and per record, for both ways together: a line through two sizes."""
    small, large = min(costs), max(costs)
    both = {size: cost.send.median + cost.receive.median for size, cost in costs.items()}
    # cost(size) = record + block / size
    block = (both[small] - both[large]) / (1 / small - 1 / large)
    return block, both[small] - block / small


def jobs() -> dict[str, tuple[StreamingJob, JobPolicy]]:
    found = {FLIGHTS.job: (FLIGHTS, load_policy(ROOT / "policies" / "flights.yaml"))}
    return found | {name: (job, real_job_policy(job)) for name, job in REAL_JOBS.items()}


def flow_of_job(job: StreamingJob, policy: JobPolicy, lines: Sequence[str]) -> BlockFlow:
    kept = lines if job.job == "real_job_4" else [line for line in lines if line[0] != "w"]
    return flow_of(build_topology(job.job, job.operators, policy), kept)


def print_edges(name: str, flow: BlockFlow, costs: dict[Edge, RecordCost]) -> None:
    for (source, target), cost in costs.items():
        work = 1e6 * flow.process_s[target]
        ratio = (cost.send.median + cost.receive.median) / work if work else float("inf")
        edge = f"{source} -> {target}"
        print(
            f"{name:11} {edge:34} {cost.records:8} {cost.records_per_block:8.1f}"
            f"  {cost.send.text():>19} {cost.receive.text():>19} {work:8.2f} {ratio:6.1f}",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.serialise", description=__doc__)
    parser.add_argument("--repeat", type=int, default=REPEAT)
    options = parser.parse_args(arguments)
    records = round(RATE * TRIGGER_S)
    lines = merged_lines()[FIRST_LINE : FIRST_LINE + records]
    print(f"one batch of {records} lines; CPU us a record, median (quartiles) of {options.repeat}")
    print(
        f"{'job':11} {'edge':34} {'records':>8} {'a block':>8}  {'send':>19} {'receive':>19}"
        f" {'process':>8} {'ratio':>6}"
    )
    constants = (0.0, 0.0)
    for name, (job, policy) in jobs().items():
        flow = flow_of_job(job, policy, lines)
        costs = edge_costs(flow, options.repeat)
        print_edges(name, flow, costs)
        if name == FLIGHTS.job:
            constants = overall(list(costs.values()))
            pairs = [p for b in flow.blocks["extract_delays", "sum_by_airplane"] for p in b]
            sizes = by_size(pairs, SIZES, options.repeat)
    print("\nrecords a block         send             receive")
    for size, cost in sizes.items():
        print(f"{size:15} {cost.send.text():>19} {cost.receive.text():>19}")
    block, record = per_block_and_record(sizes)
    print(f"both ways: about {block:.1f} us a block and {record:.2f} us a record")
    print("\nprocess: the receiving operator's function alone. ratio: (send + receive) / process.")
    print(
        "The reference job (python -m examples.flights) with every edge to another node, in CPU "
        f"seconds a record:\nsend    {constants[0]:.3g}\nreceive {constants[1]:.3g}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
