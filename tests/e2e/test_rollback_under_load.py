"""A rollback while the reference job runs under load: no record is lost or counted twice.

Flights and job are real. Versions are solved, published and rolled back by the programs of the
pipeline, and the rollback is submitted as by Airflow. Only the loads of the two plans are
generated, so that each moves a part of the state.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ballast.airflow.rest import wait_until
from ballast.contracts.errors import NotFound
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.records import Ack, Head
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_acks, read_head, read_log
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from ballast.streaming.batch_versions import DecisionLog
from ballast.streaming.job_state import job_folder, placement_in_force
from examples.flights.check import SumsReport, check_sums
from spark_jobs.publication.publisher import publish_plan
from tests.support.limits import limit_s
from tests.support.live_job import placement_of
from tests.support.programs import job_environment, submit
from tests.support.snapshots import write_draft

ROOT = Path(__file__).resolve().parents[2]
JOB = "flights"
RATE = 15_000
Group = tuple[str, int]
pytestmark = pytest.mark.timeout(limit_s(400))


@dataclass(frozen=True)
class LoadedRun:
    """The versions in force, their acknowledgements, and the sums of the job at the end."""

    settings: Settings
    heads: dict[int, Head]
    acks: dict[int, Ack]
    last_batch: int
    exit_code: int
    report: SumsReport


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    made = load_settings({
        "BALLAST_HOME": str(tmp_path_factory.mktemp("load")),
        "BALLAST_JARS": str(ROOT / ".ballast" / "jars"),
        "BALLAST_POLICIES": str(ROOT / "policies"),
    })  # fmt: skip
    policy = load_policy(made.policies / f"{JOB}.yaml")
    ensure_tables(made)
    heads, acks = {}, {}
    with running_job(made) as process:
        for version, step in enumerate((publish, publish, roll_back), start=1):
            step(made, policy)
            heads[version] = head_of(made)
            acks[version] = taken_up(made, version)
        last_batch = batches_go_on(made, acks[3].batch_id)
        process.send_signal(signal.SIGTERM)
        exit_code = process.wait(timeout=limit_s(120))
    return LoadedRun(made, heads, acks, last_batch, exit_code, check_sums(made))


@contextmanager
def running_job(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """The running job, after its first batch, with flights at a high rate."""
    log = settings.home / "flights.log"
    words = [sys.executable, "-m", "examples.flights", "--rate", str(RATE), "--trigger", "1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, cwd=ROOT, env=job_environment(settings), stdout=output, stderr=output
        )
    try:
        wait_until(lambda: at_work(settings, process, log), "the job ran no batch", limit_s(120))
        yield process
    finally:
        process.kill()
        process.wait()


def at_work(settings: Settings, process: subprocess.Popen[bytes], log: Path) -> bool | None:
    """Whether the job has run a batch."""
    assert process.poll() is None, log.read_text()[-3000:]
    try:
        return bool(placed_by_job(settings))
    except NotFound:
        return None


def placed_by_job(settings: Settings) -> dict[Group, str]:
    """The placement of the job's key groups."""
    nodes = placement_in_force(settings, JOB).nodes
    return {(name, group): node for name, row in nodes.items() for group, node in enumerate(row)}


def publish(settings: Settings, policy: JobPolicy) -> None:
    """Publish a plan for a load that is high on one node: version 1, then version 2."""
    head = read_head(settings, JOB)
    version = head.version if head else 0
    placed = placed_by_job(settings)
    heavy = policy.nodes[version].id
    loads = {group: 0.06 if node == heavy else 0.02 for group, node in placed.items()}
    run_id = f"run-{version + 1}"
    write_draft(settings, policy, run_id, placement=placed, loads=loads, head=head,
                at=datetime.now(UTC), seconds=1)  # fmt: skip
    assert publish_plan(settings, JOB, run_id) is not None


def roll_back(settings: Settings, _policy: JobPolicy) -> None:
    """Roll back to version 1, as `rollback__flights` does."""
    request = ["--version", "1", "--reason", "a test"]
    done = submit(settings, "rollback", "--job", JOB, "--run-id", "back", *request)
    assert done.returncode == 0, done.stderr[-3000:]


def head_of(settings: Settings) -> Head:
    head = read_head(settings, JOB)
    assert head is not None
    return head


def taken_up(settings: Settings, version: int) -> Ack:
    """The job's acknowledgement that it applied the version, with the figures of the moves."""

    def look() -> Ack | None:
        rows = [row for row in read_acks(settings, JOB, version) if row.status == "applied"]
        return rows[0] if rows else None

    return wait_until(look, f"version {version} was not taken up", limit_s(60))


def batches_go_on(settings: Settings, after: int) -> int:
    """Wait until some batches have run after the given one; return the newest."""
    decisions = DecisionLog(job_folder(settings, JOB) / "decisions")

    def look() -> int | None:
        latest = decisions.latest()
        return latest.batch_id if latest and latest.batch_id >= after + 3 else None

    return wait_until(look, f"no batches came after batch {after}", limit_s(60))


def test_the_version_rises_and_the_content_is_the_old_one(done: LoadedRun) -> None:
    assert [head.version for head in done.heads.values()] == [1, 2, 3]
    hashes = [done.heads[version].content_hash for version in (1, 2, 3)]
    assert hashes[0] == hashes[2] != hashes[1]
    first, third = (placement_of(done.settings, done.heads[version]) for version in (1, 3))
    assert first == third
    assert "rolled_back" in [row.event for row in read_log(done.settings, JOB)]


def test_the_job_took_each_version_up_between_batches_and_moved_state(
    done: LoadedRun,
) -> None:
    batches = [done.acks[version].batch_id for version in (1, 2, 3)]
    assert batches == sorted(set(batches))
    assert done.last_batch > batches[-1]
    assert all(ack.moved_key_groups > 0 and ack.bytes_moved > 0 for ack in done.acks.values())
    assert done.acks[3].moved_key_groups == done.acks[2].moved_key_groups
    assert placement_in_force(done.settings, JOB).version == 3
    assert placed_by_job(done.settings) == placement_of(done.settings, done.heads[1])


def test_every_sum_is_that_of_the_input(done: LoadedRun) -> None:
    assert done.exit_code == 0
    assert done.report.equal, done.report.text()
    print(done.report.text())
    rows = read_rows(done.settings, "metrics.key_groups", job=JOB).to_pandas()
    assert rows[rows.operator_id == "extract_delays"].records.sum() == done.report.flights
    assert done.report.flights > RATE
