"""Whether Spark and delta-rs may both commit to a table on local files.

``python -m bench.commit_race`` writes the same log file by Spark's ``HDFSLogStore`` and by a hard
link, which is how delta-rs commits, within the time that the first takes, and counts how often both
report success (ADR 45).
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ballast.contracts.settings import load_settings
from ballast.contracts.spark import SHORT_LIVED_JVM

WARM_UP = 200
# Spark looks for the file and renames its own towards the end of a write.
EARLIEST, LATEST = 0.2, 1.6


class SparkStore:
    """The log store of the pipeline's sessions, without the layers of Delta above it."""

    def __init__(self, spark: Any) -> None:
        self._jvm = spark._jvm
        self._conf = spark._jsc.hadoopConfiguration()
        self._store = self._jvm.io.delta.storage.HDFSLogStore(self._conf)

    def write(self, file: Path) -> bool:
        """Write the file unless it exists; return whether the write reported success."""
        from py4j.protocol import Py4JJavaError

        lines = self._jvm.java.util.ArrayList()
        lines.add("spark")
        path = self._jvm.org.apache.hadoop.fs.Path(str(file))
        try:
            self._store.write(path, lines.iterator(), False, self._conf)
        except Py4JJavaError:
            return False
        return True

    def seconds(self, folder: Path) -> float:
        """Seconds of a write once the JVM is warm."""
        taken = []
        for number in range(WARM_UP):
            began = time.perf_counter()
            self.write(folder / f"warm-{number}.json")
            taken.append(time.perf_counter() - began)
        return statistics.median(taken[WARM_UP // 2 :])


def link(temporary: Path, file: Path, after_s: float) -> bool:
    """Commit as delta-rs does: by a hard link, which fails if the file exists."""
    end = time.perf_counter() + after_s
    while time.perf_counter() < end:
        pass
    try:
        os.link(temporary, file)
    except FileExistsError:
        return False
    return True


def race(store: SparkStore, folder: Path, rounds: int) -> Counter[tuple[bool, bool]]:
    """Count how often (Spark, the link) reported success."""
    seconds = store.seconds(folder)
    print(f"a write by Spark takes {1000 * seconds:.1f} ms")
    chance = random.Random(0)
    found: Counter[tuple[bool, bool]] = Counter()
    with ThreadPoolExecutor(1) as pool:
        for number in range(rounds):
            file, temporary = folder / f"{number:020d}.json", folder / f"temporary-{number}"
            temporary.write_text("delta-rs")
            after = seconds * chance.uniform(EARLIEST, LATEST)
            linked = pool.submit(link, temporary, file, after)
            found[store.write(file), linked.result()] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Race Spark's log store against a hard link.")
    parser.add_argument("--rounds", type=int, default=3000)
    rounds = parser.parse_args().rounds
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-java-options "{SHORT_LIVED_JVM}" pyspark-shell'
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from spark_jobs.program.session import build_session

    spark = build_session(load_settings(), "commit race")
    with tempfile.TemporaryDirectory() as folder:
        found = race(SparkStore(spark), Path(folder), rounds)
    spark.stop()
    print(
        f"of {rounds} pairs of commits: Spark alone {found[True, False]}, "
        f"the link alone {found[False, True]}, both believed it {found[True, True]}"
    )


if __name__ == "__main__":
    main()
