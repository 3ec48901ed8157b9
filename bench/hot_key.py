"""One hot key: the load distance of a real stream before its key is split, and with it split.

    python -m bench.hot_key [--share 0.4] [--records 4000]

A streaming job on Spark counts words on six nodes; one word is 40 % of the records. The pipeline
condenses what the job measured, drafts a plan, verifies and publishes it, and the job takes it up;
then a second period is measured. In a third phase the word becomes rare and a plan joins it again.
The bound is proven: no placement that keeps the key on one node has a smaller load distance. Exit
1: with the split the load distance is above a quarter of that bound, a sum differs from the input,
or the key is not joined. About three minutes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy, parse_policy
from ballast.contracts.records import Draft
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.spark import spark_conf
from ballast.store.plans import read_acks, read_splits
from ballast.store.table_schema import ensure_tables
from ballast.streaming import (
    Operator,
    QueryOptions,
    RunningJob,
    StateMerge,
    StreamingJob,
    read_key_states,
)
from bench.common.markdown import table
from bench.common.runner import EXIT_DOES_NOT_HOLD, EXIT_HOLDS, short_parser
from bench.common.seeds import ROOT
from bench.common.verdict import Verdict, judged
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.take_snapshot import condense

JOB, OPERATOR, HOT = "words", "count", "the"
NODES, GROUPS, WORDS = 6, 48, 2000
WINDOW_S, PERIOD_S = 3, 24
COOL_SHARE = 0.01
PAGE = b"a page of text, so that a record costs more than its transport " * 400
GATE_TRIES = 4


def count(state: dict[str, Any], key: str, record: dict[str, Any]) -> None:
    """Count a word; the checksum stands for the work that a real operator does."""
    zlib.crc32(PAGE, len(record))
    state[key] = state.get(key, 0) + 1


def operator() -> Operator:
    """The operator, with the declaration of how two counts of a word become one."""
    sample = [{"value": "a"}, {"value": "b"}, {"value": "c"}]
    merge = StateMerge(lambda first, second: first + second, sample)
    return Operator(OPERATOR, count, state_by_key=True, merge=merge)


def policy() -> JobPolicy:
    """Six nodes, 48 key groups, and plans that may split words."""
    return parse_policy(
        {
            "job": JOB,
            "window_s": WINDOW_S,
            "statistics_period_s": PERIOD_S,
            "operators": [{"id": OPERATOR, "key_groups": GROUPS, "partition_key": ["word"]}],
            "nodes": [{"id": f"node-{number}"} for number in range(1, NODES + 1)],
            "splits": {"operators": [OPERATOR]},
            "solver": {"seconds": 2.0},
            "thresholds": {"late_after_s": 600.0},
        },
        "bench",
    )


@dataclass
class WordStream:
    """The input of the job: files of words, and how often each word was written."""

    folder: Path
    records: int
    share: float
    written: Counter[str] = field(default_factory=Counter)
    files: int = 0

    def feed(self) -> None:
        """Write one batch of records; the hot word has its share of them."""
        hot = round(self.records * self.share)
        start = self.files * (self.records - hot)
        words = [f"word {(start + number) % WORDS}" for number in range(self.records - hot)]
        words += [HOT] * hot
        hidden = self.folder / f".{self.files}"
        hidden.write_text("".join(f"{word}\n" for word in words))
        hidden.rename(self.folder / f"{self.files:05d}.txt")
        self.files += 1
        self.written.update(words)


@dataclass(frozen=True)
class HotKeyJob:
    """A running job, its input and the tables that the pipeline uses."""

    spark: SparkSession
    settings: Settings
    policy: JobPolicy
    running: RunningJob
    stream: WordStream

    def run_for(self, seconds: float) -> None:
        """Feed the job for some time; every batch is processed before the next one is written."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.stream.feed()
            self.running.drain()

    def drafted(self, run_id: str) -> Draft:
        """The plan of a statistics period; on a busy machine windows may come late."""
        for attempt in range(GATE_TRIES):
            self.run_for(PERIOD_S + WINDOW_S if attempt == 0 else PERIOD_S / 2)
            request = SnapshotRequest(self.policy, run_id, datetime.now(UTC))
            try:
                condense(self.settings, request, lambda: nullcontext(self.spark))
            except GateFailed as late:
                print(f"{run_id}: {late}", flush=True)
                continue
            return draft_plan(self.settings, JOB, run_id, SolveOptions())
        raise SystemExit(f"{run_id}: no snapshot after {GATE_TRIES} periods")

    def take_up(self, run_id: str) -> None:
        """Publish the plan of a run, and feed the job until it has taken the plan up."""
        head = publish_plan(self.settings, JOB, run_id)
        for _ in range(60):
            self.stream.feed()
            self.running.drain()
            acks = read_acks(self.settings, JOB, head.version)
            if any(ack.status == "applied" for ack in acks):
                return
        raise SystemExit(f"version {head.version} was not taken up in 60 batches")


@contextmanager
def started(folder: Path, records: int, share: float) -> Iterator[HotKeyJob]:
    """A job with its session, input and tables in a folder."""
    settings = load_settings({"BALLAST_HOME": str(folder / "home")})
    settings = replace(settings, jars=ROOT / ".ballast" / "jars", policies=folder / "policies")
    ensure_tables(settings)
    # Workers import the library from the environment of this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.config(map=spark_conf(settings)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    stream = WordStream(folder / "input", records, share)
    stream.folder.mkdir()
    found = policy()
    job = StreamingJob(JOB, source_key="value", operators=[operator()])
    frame = spark.readStream.text(str(stream.folder))
    options = QueryOptions(trigger_s=0.2, drain_limit_s=300.0)
    try:
        with job.start(frame, settings, found, options) as running:
            yield HotKeyJob(spark, settings, found, running, stream)
    finally:
        spark.stop()


def main(argv: list[str] | None = None) -> int:
    parser = short_parser(__doc__)
    parser.add_argument("--share", type=float, default=0.4, help="part of the records")
    parser.add_argument("--records", type=int, default=4000, help="records of a batch")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ballast-hot-key-") as folder:
        return report(Path(folder), arguments.records, arguments.share)


def report(folder: Path, records: int, share: float) -> int:
    """Run the phases, print the table and the verdicts, and return the exit code."""
    with started(folder, records, share) as bench:
        hot = bench.drafted("hot")
        parts = len(read_splits(bench.settings, JOB, hot.plan_id))
        if hot.unsplit_bound_pct is None:
            print(f"the plan splits no key: {hot.splits_reason or hot.reason}")
            return EXIT_DOES_NOT_HOLD
        bench.take_up("hot")
        split = bench.drafted("split")
        bench.stream.share = COOL_SHARE
        bench.run_for(PERIOD_S)
        cool = bench.drafted("cool")
        if cool.status != "unchanged":
            bench.take_up("cool")
        settings, stream = bench.settings, bench.stream
    wrong = sums_that_differ(settings, stream)
    print_phases(hot, split, cool, parts)
    verdicts = [
        Verdict(
            "load distance with the key split, % of mean",
            split.load_distance_before_pct, hot.unsplit_bound_pct / 4, at_least=False,
        ),
        Verdict("sums that differ from the input", wrong, 0, at_least=False),
        Verdict("keys that are split after the key cooled down", cool.split_keys or 0, 0, False),
    ]  # fmt: skip
    print(judged(verdicts))
    return EXIT_HOLDS if all(verdict.holds for verdict in verdicts) else EXIT_DOES_NOT_HOLD


def sums_that_differ(settings: Settings, stream: WordStream) -> int:
    """Words whose count is not that of the input."""
    found = read_key_states(settings, JOB, operator())
    return sum(found.get(word) != times for word, times in stream.written.items()) + len(
        found.keys() - stream.written.keys()
    )


def print_phases(hot: Draft, split: Draft, cool: Draft, parts: int) -> None:
    """The load distances of the three periods, each measured by the job."""
    print(f"\n{hot.splits_reason}\n{cool.splits_reason}\n")
    rows = [
        ["before", f"{hot.load_distance_before_pct:.2f}", "measured"],
        ["best without splitting", f"{hot.unsplit_bound_pct:.2f}", "proven bound"],
        [f"split over {parts} key groups", f"{hot.load_distance_pct:.2f}", "promised"],
        [f"split over {parts} key groups", f"{split.load_distance_before_pct:.2f}", "measured"],
        ["cooled down, before the join", f"{cool.load_distance_before_pct:.2f}", "measured"],
        ["cooled down, joined", f"{cool.load_distance_pct:.2f}", "promised"],
    ]
    print(table(["hot key", "load distance, % of mean", ""], rows), "\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
