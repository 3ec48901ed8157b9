"""The longest batch while a plan is taken up: in steps beside all at once, 200 moves and 2 GB.

    python -m bench.steps [--moves 200] [--megabytes 2000] [--moves-per-batch 5] [--rounds 2]

A real job on Spark (two cores) has its key groups on half of its nodes. Plans move them to the
other half and back: in each round once all at once and once in steps. A batch has the same few
records each time, of key groups that do not move and have little state. What a batch takes longer
than the median batch without a move is therefore the time that the take-up added. All figures are
of one run on one machine, and the verdict is a ratio of two of them.

Exits with 1 if the longest added time in steps is not below half of that of all moves at once, or
if a count is wrong.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ballast.contracts.identity import content_hash
from ballast.contracts.policy import JobPolicy, parse_policy
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.spark import spark_conf
from ballast.store.plans import read_acks, read_head
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append, open_table
from ballast.streaming import Operator, QueryOptions, RunningJob, StreamingJob, read_states
from ballast.streaming.job_state import job_folder, placement_in_force
from ballast.streaming.key_group_state import StateStore
from ballast.streaming.routing import key_group_of
from bench.common.markdown import table
from bench.common.runner import conclude, machine, short_parser
from bench.common.verdict import Verdict, judged

JOB = "steps"
NODES = 6
STAYING = 12
"""Key groups with little state that never move; they take all records."""
QUIET_BATCHES = 8
LIMIT_S = 900
MOST_OF_AT_ONCE = 0.5


@dataclass(frozen=True)
class MovedSize:
    """How much is moved."""

    moves: int
    megabytes: int
    moves_per_batch: int

    @property
    def key_groups(self) -> int:
        return self.moves + STAYING

    @property
    def blob(self) -> str:
        """The state of a key group that moves."""
        return "x" * (self.megabytes * 1_000_000 // self.moves)


@dataclass(frozen=True)
class TakeUpTimes:
    """What one take-up added to its batches, in seconds."""

    quiet_s: float
    """The median batch without a move."""
    batches: int
    longest_batch_s: float
    longest_pause_s: float
    total_pause_s: float
    bytes_moved: int
    moves: int

    @property
    def added_s(self) -> float:
        return max(0.0, self.longest_batch_s - self.quiet_s)


def policy_of(size: MovedSize, *, in_steps: bool) -> JobPolicy:
    return parse_policy(
        {
            "job": JOB,
            "window_s": 5,
            "statistics_period_s": 60,
            "operators": [
                {"id": "count", "key_groups": size.key_groups, "partition_key": ["word"]}
            ],
            "nodes": [{"id": f"node-{number}"} for number in range(NODES)],
            "take_up": {"moves_per_batch": size.moves_per_batch} if in_steps else {},
        },
        "bench",
    )


def count(state: dict[str, int], key: str, _record: object) -> None:
    state[key] = state.get(key, 0) + 1


class SteppedJob:
    """The job with its input, run by several processes' worth of starts."""

    def __init__(self, spark: SparkSession, settings: Settings, size: MovedSize) -> None:
        self.spark, self.settings, self.size = spark, settings, size
        self.input = settings.home / "input"
        self.input.mkdir(parents=True)
        self.streaming = StreamingJob(JOB, "value", [Operator("count", process=count)])
        small = range(size.moves, size.key_groups)
        names = (f"w{number}" for number in range(100 * size.key_groups))
        self.words = [word for word in names if key_group_of(word, size.key_groups) in small][:100]
        self.files = self.version = 0

    @contextmanager
    def running(self, *, in_steps: bool) -> Iterator[RunningJob]:
        stream = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.input))
        options = QueryOptions(trigger_s=0.05, stop_limit_s=LIMIT_S, drain_limit_s=LIMIT_S)
        policy = policy_of(self.size, in_steps=in_steps)
        with self.streaming.start(stream, self.settings, policy, options) as running:
            yield running

    def batch(self, running: RunningJob) -> float:
        """Feed one batch; the seconds that it took, as Spark measured them."""
        hidden = self.input / f".{self.files}"
        hidden.write_text("".join(f"{word}\n" for word in self.words))
        hidden.rename(self.input / f"{self.files:05d}.txt")
        self.files += 1
        running.drain()
        longest = [
            progress["durationMs"]["triggerExecution"] / 1000
            for progress in running.query.recentProgress
            if progress["numInputRows"] and progress["batchId"] == self.files - 1
        ]
        return max(longest)

    def publish(self, first_node: int) -> None:
        """Put a plan in force that places what moves on three nodes from the given one on."""
        self.version += 1
        nodes = [
            f"node-{first_node + group % 3 if group < self.size.moves else group % NODES}"
            for group in range(self.size.key_groups)
        ]
        plan_id = f"plan-{self.version}"
        append(self.settings, "plans.assignments", [
            {"job": JOB, "plan_id": plan_id, "operator_id": "count", "key_group": group,
             "node_id": node, "previous_node_id": node, "state_bytes": 0}
            for group, node in enumerate(nodes)
        ])  # fmt: skip
        hashed = content_hash(("count", group, node) for group, node in enumerate(nodes))
        head: dict[str, Any] = {
            "version": self.version, "plan_id": plan_id, "content_hash": hashed,
        }  # fmt: skip
        if read_head(self.settings, JOB) is None:
            about = {"job": JOB, "run_id": "bench", "published_at": datetime.now(UTC)}
            append(self.settings, "plans.heads", [about | head])
        else:
            open_table(self.settings, "plans.heads").update(
                new_values=head, predicate=f"job = '{JOB}'"
            )

    def add_state(self) -> None:
        """Give the key groups that move their state; the job is stopped after its first batch."""
        store = StateStore(job_folder(self.settings, JOB) / "state")
        placement = placement_in_force(self.settings, JOB)
        for group in range(self.size.moves):
            blob = {"blob": self.size.blob}
            store.write_taken_up(placement.node_of("count", group), "count", group, 1, blob)

    def is_exact(self) -> bool:
        """Whether every word was counted once a batch, and all other state is what it was."""
        states = read_states(self.settings, JOB, "count")
        found = {k: n for state in states.values() for k, n in state.items() if k != "blob"}
        blobs = sum(state.get("blob") == self.size.blob for state in states.values())
        return found == dict.fromkeys(self.words, self.files) and blobs == self.size.moves


def take_up(job: SteppedJob, first_node: int, *, in_steps: bool) -> TakeUpTimes:
    """Take one plan up and measure every batch until it is applied."""
    with job.running(in_steps=in_steps) as running:
        job.batch(running)  # the first batch of a query compiles and reads sizes
        quiet = [job.batch(running) for _ in range(QUIET_BATCHES)]
        job.publish(first_node)
        took: list[float] = []
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            took.append(job.batch(running))
            acks = read_acks(job.settings, JOB, job.version)
            if acks and acks[-1].status == "applied":
                break
        else:
            raise TimeoutError(f"version {job.version} was not applied within {LIMIT_S} s")
    applied = acks[-1]
    return TakeUpTimes(
        quiet_s=statistics.median(quiet),
        batches=applied.steps or 1,
        longest_batch_s=max(took),
        longest_pause_s=(applied.longest_pause_ms or 0.0) / 1000,
        total_pause_s=applied.pause_ms / 1000,
        bytes_moved=applied.bytes_moved,
        moves=applied.moved_key_groups,
    )


def report(at_once: Sequence[TakeUpTimes], in_steps: Sequence[TakeUpTimes]) -> str:
    rows = [
        [name, str(t.moves), f"{t.bytes_moved / 1e9:.2f}", str(t.batches), f"{t.quiet_s:.2f}",
         f"{t.longest_batch_s:.2f}", f"{t.added_s:.2f}", f"{t.longest_pause_s:.2f}",
         f"{t.total_pause_s:.2f}"]
        for name, found in (("all at once", at_once), ("in steps", in_steps))
        for t in found
    ]  # fmt: skip
    return table(
        ["take-up", "moves", "GB", "batches", "quiet batch, s", "longest batch, s",
         "longest added, s", "longest pause, s", "total pause, s"], rows,
    )  # fmt: skip


def measure(size: MovedSize, rounds: int, folder: Path) -> int:
    """Run the job and print the report; returns the exit code."""
    settings = replace(load_settings(), home=folder, warehouse=str(folder / "warehouse"))
    ensure_tables(settings)
    spark = SparkSession.builder.master("local[2]").config(map=spark_conf(settings)).getOrCreate()
    job = SteppedJob(spark, settings, size)
    try:
        job.publish(0)
        with job.running(in_steps=False) as running:
            job.batch(running)
        job.add_state()
        at_once, in_steps = [], []
        for _ in range(rounds):
            at_once.append(take_up(job, 3, in_steps=False))
            in_steps.append(take_up(job, 0, in_steps=True))
        exact = job.is_exact()
    finally:
        spark.stop()
    ratio = max(t.added_s for t in in_steps) / max(t.added_s for t in at_once)
    verdict = Verdict("longest added time in steps / all at once", ratio, MOST_OF_AT_ONCE, False)
    counts = Verdict("state exact after all take-ups (1 is yes)", float(exact), 1.0, True)
    text = (
        f"{size.moves} moves, {size.megabytes} MB, {size.moves_per_batch} moves a batch; "
        f"{machine()}\n\n{report(at_once, in_steps)}\n\n{judged([verdict, counts])}"
    )
    return conclude(text, holds=verdict.holds and counts.holds)


def main(arguments: list[str] | None = None) -> int:
    parser = short_parser(__doc__)
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=2000, help="state that moves, in total")
    parser.add_argument("--moves-per-batch", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args(arguments)
    size = MovedSize(args.moves, args.megabytes, args.moves_per_batch)
    with tempfile.TemporaryDirectory(prefix="ballast-steps-") as folder:
        return measure(size, args.rounds, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
