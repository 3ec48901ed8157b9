"""What every engine must do, shown by a Flink job on a real cluster."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ballast.contracts.records import Ack
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks
from ballast.store.tables import read_rows
from embedded.flink_cluster import FlinkCluster, compile_job
from tests.support.orders_group import stop, wait_for
from tests.support.policies import write_policy
from tests.support.visits_job import COUNT, FIRST, MOST, SOURCE, VisitsJob, flink_policy

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".ballast" / "flink-jars"
TASK_MANAGERS, SLOTS = 3, 2
MakeJob = Callable[..., VisitsJob]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    started = FlinkCluster(JARS, tmp_path_factory.mktemp("flink") / "cluster", SLOTS, 1000)
    try:
        started.start(TASK_MANAGERS)
        yield started
    finally:
        started.remove()


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "examples" / "visits" / "VisitCount.java"
    return compile_job(source, JARS, tmp_path_factory.mktemp("jar"))


@pytest.fixture
def make_job(
    cluster: FlinkCluster, jar: Path, settings: Settings, tmp_path: Path
) -> Iterator[MakeJob]:
    made: list[VisitsJob] = []

    def make(**fields: object) -> VisitsJob:
        policy = flink_policy(f"visits{next(_numbers)}", **fields)
        write_policy(settings.policies, policy)
        made.append(VisitsJob(settings, policy, cluster, jar, tmp_path / policy.job))
        return made[-1]

    yield make
    for job in made:
        job.close()


@pytest.fixture
def running(make_job: MakeJob) -> VisitsJob:
    """A job and a service."""
    job = make_job()
    job.submit()
    job.start_service()
    return job


def ack(job: VisitsJob, version: int, status: str) -> Ack:
    def look() -> Ack | None:
        acks = read_acks(job.settings, job.job, version)
        return next((each for each in acks if each.status == status), None)

    return wait_for(f"version {version} is {status}", look, job.logs)


def statuses(job: VisitsJob) -> list[tuple[int, str]]:
    return [(each.version, each.status) for each in read_acks(job.settings, job.job)]


def test_a_plan_and_its_rollback_are_taken_up_with_exact_counts(running: VisitsJob) -> None:
    running.give(1, {SOURCE: 1, COUNT: 3})
    first = ack(running, 1, "applied")
    assert running.count_size() == 3
    running.give(2, {SOURCE: 1, COUNT: FIRST})
    second = ack(running, 2, "applied")
    assert running.count_size() == FIRST
    assert first.pause_ms > 0
    assert second.pause_ms > 0
    assert first.bytes_moved > 0
    assert "records were processed again" in first.reason
    assert second.batch_id > first.batch_id
    found = running.ended()
    assert (found.lost, found.doubled) == (0, 0)
    assert found.visits > 0
    assert statuses(running) == [
        (1, "accepted"), (1, "applied"), (2, "accepted"), (2, "applied"),
    ]  # fmt: skip


def test_windows_are_aligned_complete_and_written_once(running: VisitsJob) -> None:
    running.start_service()

    def rows(table: str) -> list[dict[str, object]]:
        return list(read_rows(running.settings, table, job=running.job).to_pylist())

    def whole() -> list[object] | None:
        ends = Counter(row["window_end_at"] for row in rows("metrics.key_groups"))
        complete = [end for end, count in ends.items() if count == 1 + MOST]
        return complete if len(complete) >= 3 else None

    ends = wait_for("three whole windows", whole, running.logs)
    assert all(end.timestamp() % running.policy.window_s == 0 for end in ends)  # type: ignore[attr-defined]
    found = [row for row in rows("metrics.key_groups") if row["window_end_at"] in ends]
    names = [(row["operator_id"], row["key_group"], row["window_end_at"]) for row in found]
    assert len(names) == len(set(names))
    for row in found:
        exists = row["operator_id"] == SOURCE or int(str(row["key_group"])) < FIRST
        assert bool(row["records"]) == exists
        assert bool(row["busy_ms"]) == exists
    assert any(int(str(row["state_bytes"])) > 0 for row in found)
    assert {row["node_id"] for row in rows("metrics.nodes")} == {"cluster"}
    sources = rows("metrics.sources")
    assert {row["source_id"] for row in sources} == {SOURCE}
    assert all(row["backlog_records"] is not None for row in sources)
    assert all(row["arrived_records"] is not None for row in sources)


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ({SOURCE: 1, COUNT: MOST + 1}, "allowed: 1 to 6"),
        ({SOURCE: 1, COUNT: 2, "strange": 2}, "unknown operator strange"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_and_the_job_stays(
    running: VisitsJob, sizes: dict[str, int], reason: str
) -> None:
    running.give(1, sizes)
    assert reason in ack(running, 1, "refused").reason
    assert running.count_size() == FIRST
    running.give(2, {SOURCE: 1, COUNT: 1})
    ack(running, 2, "applied")
    assert running.count_size() == 1


def test_a_plan_that_needs_more_slots_than_there_are_is_refused(
    make_job: MakeJob, cluster: FlinkCluster
) -> None:
    other = make_job()
    other.submit(size=4)
    job = make_job()
    job.submit()
    job.start_service()
    job.give(1, {SOURCE: 1, COUNT: 3})
    assert "needs 3 slots; the job has 2 and 0 are free" in ack(job, 1, "refused").reason
    assert job.count_size() == FIRST
    assert cluster.call("GET", f"/jobs/{job.job_id}/rescales/history")


def test_a_job_with_other_vertices_than_the_policy_is_refused(make_job: MakeJob) -> None:
    job = make_job()
    policy = flink_policy(
        job.job,
        engine={
            "kind": "flink",
            "job_name": job.job,
            "vertices": {
                SOURCE: {"name": "Source: visits"},
                COUNT: {"name": "earlier name", "parallelism": FIRST},
            },
        },
    )
    write_policy(job.settings.policies, policy)
    job.submit()
    job.start_service()
    job.give(1, {SOURCE: 1, COUNT: 3})
    assert "correct engine.vertices" in ack(job, 1, "refused").reason
    assert job.count_size() == FIRST


def test_an_unreadable_head_leaves_the_job_as_it_is(running: VisitsJob) -> None:
    running.give(1, {SOURCE: 1, COUNT: 3})
    ack(running, 1, "applied")
    table = Path(running.settings.warehouse) / "plans" / "heads"
    table.rename(table.with_name("away"))
    table.mkdir()
    (table / "_delta_log").mkdir()
    (table / "_delta_log" / f"{0:020d}.json").write_text("no log of Delta")
    wait_for(
        "the service has failed to read the head",
        lambda: "tried again" in running.logs() or None,
        running.logs,
    )
    assert running.count_size() == 3
    shutil.rmtree(table)
    table.with_name("away").rename(table)
    running.give(2, {SOURCE: 1, COUNT: FIRST})
    ack(running, 2, "applied")
    assert running.ended().is_exact


def test_of_two_services_one_acts_and_the_other_takes_over(running: VisitsJob) -> None:
    running.start_service()
    running.give(1, {SOURCE: 1, COUNT: 3})
    ack(running, 1, "applied")
    assert stop(running.services[0]) == 0
    running.give(2, {SOURCE: 1, COUNT: FIRST})
    ack(running, 2, "applied")
    assert statuses(running) == [
        (1, "accepted"), (1, "applied"), (2, "accepted"), (2, "applied"),
    ]  # fmt: skip
    nodes = read_rows(running.settings, "metrics.nodes", job=running.job).to_pylist()
    names = [(row["node_id"], row["window_end_at"]) for row in nodes]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("point", ["accepted", "sent", "before_applied"])
def test_a_service_that_is_killed_in_a_take_up_is_continued_by_the_next(
    make_job: MakeJob, point: str
) -> None:
    job = make_job()
    job.submit()
    service = job.start_service(fault=f"engine.{point}@1")
    job.give(1, {SOURCE: 1, COUNT: 3})
    wait_for("the service is killed", service.poll, job.logs)
    job.start_service()
    ack(job, 1, "applied")
    assert job.count_size() == 3
    assert statuses(job) == [(1, "accepted"), (1, "applied")]
    assert job.ended().is_exact


def test_a_task_manager_that_is_killed_in_a_take_up_loses_nothing(
    running: VisitsJob, cluster: FlinkCluster
) -> None:
    running.give(1, {SOURCE: 1, COUNT: 4})
    ack(running, 1, "accepted")
    cluster.kill_task_manager("tm-0")
    try:
        ack(running, 1, "applied")
    finally:
        cluster.start_task_manager("tm-0")
        cluster.wait_for_slots(TASK_MANAGERS * SLOTS)
    assert running.count_size() == 4
    assert running.ended().is_exact


def test_a_job_that_is_submitted_again_after_the_job_manager_died_is_brought_under_its_plan(
    running: VisitsJob, cluster: FlinkCluster
) -> None:
    running.give(1, {SOURCE: 1, COUNT: 3})
    ack(running, 1, "applied")
    first = running.job_id
    cluster.stop_job_manager()
    checkpoint = cluster.newest_checkpoint(first)
    cluster.start_job_manager()
    cluster.wait_for_slots(TASK_MANAGERS * SLOTS)
    running.submit(savepoint=checkpoint)
    assert running.job_id != first
    wait_for("it has the sizes of the plan", lambda: running.count_size() == 3 or None,
             running.logs)  # fmt: skip
    running.give(2, {SOURCE: 1, COUNT: FIRST})
    ack(running, 2, "applied")
    assert running.count_size() == FIRST
    assert running.ended().is_exact
