"""The flights job on the executors of a Spark cluster, while parts of the cluster are killed.

After each fault the sums are equal to those of the input, or the job stops in words before any sum
is wrong. `make test-cluster` runs these tests; `make test` does not.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ballast.contracts.errors import ClusterUnavailable, JobStalled, StateNotShared
from ballast.store.tables import read_rows
from ballast.streaming.job_state import job_folder
from examples.flights.check import check_sums
from tests.support.limits import limit_s
from tests.support.spark_cluster import (
    JOB,
    MASTER_HOST,
    ROOT,
    ClusterJob,
    SparkCluster,
    environment,
    eventually,
    private_folder,
)

pytestmark = pytest.mark.timeout(3_000)
Fault = Callable[[str, float, str], None]
RATE = ["--rate", "5000"]
WAITING_PROGRAM = """
import sys
from ballast.contracts.errors import BallastError
from ballast.contracts.settings import load_settings
from spark_jobs.program.core_wait import WaitLimits
from spark_jobs.program.run import spark_session

try:
    with spark_session(load_settings(), "waits", WaitLimits(2.0, 12.0)) as spark:
        spark.range(10).count()
except BallastError as error:
    print(error, flush=True)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def job(cluster: SparkCluster, tmp_path: Path) -> Iterator[ClusterJob]:
    made = ClusterJob(cluster, tmp_path / "home")
    yield made
    made.stop()


def stopped_sums(job: ClusterJob) -> str:
    assert job.terminate() == 0, job.log.read_text()[-3000:]
    report = check_sums(job.settings)
    assert report.equal, report.text()
    return report.text().splitlines()[0]


def test_sums_stay_exact_while_parts_of_the_cluster_come_and_go(
    cluster: SparkCluster, job: ClusterJob, fault: Fault
) -> None:
    job.start(*RATE)
    first = job.wait_for_batches(3)
    assert len(cluster.executors()) == 2, "the job runs on executors, and not in its driver"
    fault("start on the cluster", first, "")
    cluster.executors()[0].kill()
    fault("executor killed", job.wait_for_batches(3), "")
    busy = next(number for number in (1, 2) if cluster.executors(number))
    cluster.kill(f"worker-{busy}")
    for executor in cluster.executors(busy):
        executor.kill()
    fault("worker killed with its executors", job.wait_for_batches(3), "")
    cluster.start_worker(3)
    fault("a worker joins", job.wait_for_batches(3), "")
    job.kill()
    began = time.monotonic()
    job.start(*RATE)
    job.wait_for_batches(2)
    fault("driver killed", time.monotonic() - began, "")
    fault("all of them, then stopped", 0.0, stopped_sums(job))


def test_a_job_whose_master_forgot_it_leaves_no_zeros_and_ends(
    cluster: SparkCluster, job: ClusterJob, fault: Fault
) -> None:
    job.start(*RATE)
    job.wait_for_batches(3)
    began = time.monotonic()
    cluster.kill("master")
    for number in (1, 2):
        cluster.kill(f"worker-{number}")
    for executor in cluster.executors():
        executor.kill()
    assert job.wait(600) == JobStalled.exit_code, job.log.read_text()[-3000:]
    assert "has had no executor since" in job.log.read_text()
    rows = read_rows(job.settings, "metrics.jobs", job=JOB).to_pylist()
    lost = [row for row in rows if row["state"] == "no_executors"]
    assert lost
    since = min(row["state_since_at"] for row in lost)
    nodes = read_rows(job.settings, "metrics.nodes", job=JOB, columns=["window_start_at"])
    assert max(nodes["window_start_at"].to_pylist()) <= since
    cluster.start_master()
    for number in (1, 2):
        cluster.start_worker(number)
    job.start(*RATE)
    job.wait_for_batches(2)
    seconds = time.monotonic() - began
    fault("master restarted without recovery", seconds, stopped_sums(job))


def test_workers_with_a_private_state_folder_stop_the_job_before_any_sum(
    tmp_path: Path, fault: Fault
) -> None:
    cluster = SparkCluster(tmp_path)
    job = ClusterJob(cluster, tmp_path / "home")
    state = job_folder(job.settings, JOB) / "state"
    state.mkdir(parents=True)
    private = private_folder(state)
    if private is None:
        pytest.skip("this user may not mount a file system")
    try:
        cluster.start_master()
        for number in (1, 2):
            cluster.start_worker(number, private)
        began = time.monotonic()
        job.start(*RATE)
        assert job.wait() == StateNotShared.exit_code, job.log.read_text()[-3000:]
        fault("state folder private to workers", time.monotonic() - began, "stopped, none written")
        assert "is not the one that the driver of the job writes" in job.log.read_text()
        assert not list(state.glob("*/*/*/*"))
    finally:
        job.stop()
        cluster.stop()


def test_a_program_that_gets_no_cores_says_so_and_ends(
    cluster: SparkCluster, job: ClusterJob, fault: Fault
) -> None:
    for number in (1, 2):
        cluster.kill(f"worker-{number}")
    settings = job.settings
    env = environment() | {
        "BALLAST_HOME": str(settings.home),
        "BALLAST_JARS": str(settings.jars),
        "BALLAST_SPARK_MASTER": cluster.master,
        "PYSPARK_SUBMIT_ARGS": f"--conf spark.driver.host={MASTER_HOST} pyspark-shell",
    }
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", WAITING_PROGRAM], cwd=ROOT, env=env, capture_output=True, text=True,
        timeout=limit_s(120), check=False,
    )  # fmt: skip
    assert done.returncode == ClusterUnavailable.exit_code, done.stderr[-3000:]
    assert f"waits for cores: no executor of {cluster.master}" in done.stdout
    fault("no cores for a program", time.monotonic() - began, "ended, to be tried again")
    eventually(lambda: not cluster.executors(), "no executor is left", 30)
