"""A Python worker is killed in a stage: Spark repeats the task, and counts stay exact.

The job runs in a process of its own, because its session retries tasks (``local[2,4]``), and the
tests of this folder share no session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = [f"{letter}{number}" for letter in "abcd" for number in range(40)] * 3
BATCHES = 3


class DieOnce:
    """Counts records; at one record of the second batch the worker is killed, once per flag
    file."""

    def __init__(self, inner, flag: Path, word: str) -> None:
        self.inner, self.flag, self.word = inner, str(flag), word

    def __call__(self, state, key, record):
        if key == self.word and state.get(key, 0) > 3 and not os.path.exists(self.flag):
            Path(self.flag).touch()
            os._exit(1)
        return self.inner(state, key, record)


def run_job(home: Path) -> dict[str, int]:
    """Run the job in a process whose Spark retries tasks; return its final counts."""
    from pyspark.sql import SparkSession

    from ballast.contracts.settings import load_settings
    from ballast.contracts.spark import SHORT_LIVED_JVM, spark_conf
    from ballast.store.table_schema import ensure_tables
    from ballast.streaming import Operator, QueryOptions, StreamingJob, read_states
    from tests.support.streaming_parts import JOB, OPERATORS, policy_of

    master = "local[2,4]"  # tasks of a local Spark are tried four times
    settings = load_settings({"BALLAST_HOME": str(home), "BALLAST_SPARK_MASTER": master})
    settings = replace(settings, jars=ROOT / ".ballast" / "jars")
    ensure_tables(settings)
    builder = SparkSession.builder.config("spark.driver.extraJavaOptions", SHORT_LIVED_JVM)
    for key, value in spark_conf(settings).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    parse, count, total = OPERATORS
    operators = [
        parse,
        Operator("count", DieOnce(count.process, home / "died-count", "c7"), count.key),
        Operator("total", DieOnce(total.process, home / "died-total", "c"), total.key),
    ]
    (home / "input").mkdir()
    job = StreamingJob(JOB, source_key="value", operators=operators)
    stream = spark.readStream.text(str(home / "input"))
    with job.start(stream, settings, policy_of(3), QueryOptions(trigger_s=0.1)) as running:
        for batch in range(BATCHES):
            hidden = home / "input" / f".{batch}"
            hidden.write_text("\n".join(WORDS))
            hidden.rename(home / "input" / f"{batch}.txt")
            running.drain()
    spark.stop()
    states = read_states(settings, JOB, "count").values()
    return {word: times for state in states for word, times in state.items()}


@pytest.mark.slow
def test_a_task_repeated_after_its_worker_died_counts_once(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.test_streaming_retry", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "died-count").exists(), "a worker died in the operator in the middle"
    assert json.loads(done.stdout.splitlines()[-1]) == {
        word: times * BATCHES for word, times in Counter(WORDS).items()
    }


if __name__ == "__main__":
    print(json.dumps(run_job(Path(sys.argv[1]))))
