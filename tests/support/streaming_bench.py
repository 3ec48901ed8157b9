"""One streaming job with four operators and its input, run in several processes one after
another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks
from ballast.store.tables import read_rows
from ballast.streaming import Operator, QueryOptions, RunningJob, StreamingJob, read_states
from tests.support.streaming_parts import JOB, policy_of

POLICY = policy_of(3, window_s=1, statistics_period_s=10)
# The limits are for a machine that is slow, not for one that hangs.
FAST = QueryOptions(trigger_s=0.1, stop_limit_s=250.0, drain_limit_s=250.0)
WORDS = [f"{letter}{number}" for letter in "abcdé" for number in range(30)]


class Bench:
    """One job with its input, run several times."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        tmp_path: Path,
        operators: Sequence[Operator],
        source_key: str = "value",
    ) -> None:
        self.spark = spark
        self.settings = replace(settings, home=tmp_path / "home")
        self.input = tmp_path / "input"
        self.input.mkdir()
        self.job = StreamingJob(JOB, source_key=source_key, operators=operators)
        self.counted: Counter[str] = Counter()
        self.files = 0

    def start(self, policy: JobPolicy = POLICY, options: QueryOptions = FAST) -> RunningJob:
        stream = self.spark.readStream.text(str(self.input))
        return self.job.start(stream, self.settings, policy, options)

    def feed(self, words: Sequence[str] = WORDS) -> None:
        self.feed_bytes("".join(f"{word}\n" for word in words).encode())
        self.counted.update(words)

    def feed_bytes(self, data: bytes) -> None:
        hidden = self.input / f".{self.files}"
        hidden.write_bytes(data)
        hidden.rename(self.input / f"{self.files:04d}.txt")
        self.files += 1

    def state(self, operator: str) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for group in read_states(self.settings, JOB, operator).values():
            merged |= group
        return merged

    def rows(self, table: str) -> Any:
        return read_rows(self.settings, table, job=JOB).to_pandas()

    def acks(self) -> list[tuple[int, str]]:
        return [(a.version, a.status) for a in read_acks(self.settings, JOB)]
