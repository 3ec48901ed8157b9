"""A snapshot of complete metrics: its rows, the files that it reads, and retries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from ballast.store.tables import append, open_table, read_rows
from spark_jobs.snapshot import take_snapshot
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.window_rows import of_job_since
from spark_jobs.warehouse.spark_tables import read_table
from tests.spark.spark_jobs.snapshot.conftest import Condense
from tests.support.metrics import START, write_windows
from tests.support.policies import small_policy

Row = dict[str, Any]
HISTORY = 20
WINDOWS = 6
METRICS = ("metrics.key_groups", "metrics.nodes", "metrics.traffic")


def cpu_ms(operator: str, group: int, window: int) -> float:
    """Every key group has another load, and every window differs from the one before."""
    return 100.0 * group + 10 * window + (5 if operator == "count" else 0)


def job_policy() -> JobPolicy:
    nodes = [
        {"id": "node-0", "rack": "rack-7", "capacity": {"cpu_cores": 2, "memory_bytes": 1e9}},
        {"id": "node-1", "draining": True},
    ]
    return small_policy(nodes=nodes)


@dataclass(frozen=True)
class TakenSnapshot:
    settings: Settings
    policy: JobPolicy
    end: datetime
    snapshot: Snapshot

    def rows(self, table: str) -> list[Row]:
        where = [("snapshot_id", "=", self.snapshot.snapshot_id)]
        return read_rows(self.settings, table, job=self.policy.job, where=where).to_pylist()


@pytest.fixture(scope="module")
def taken(make_settings: Callable[[], Settings], take: Condense) -> TakenSnapshot:
    """A job with a long history whose files, like another job's, cannot be read any more."""
    settings, policy = make_settings(), job_policy()
    write_windows(settings, policy, START - timedelta(days=2), 2, commit_each=True)
    earlier = START - HISTORY * timedelta(seconds=policy.window_s)
    write_windows(settings, policy, earlier, HISTORY, commit_each=True, loads=9000.0)
    write_windows(settings, small_policy(job="other"), START, WINDOWS)
    for name in METRICS:
        # Not the checkpoints of the log, without which no table can be opened.
        for file in Path(settings.table_uri(name)).glob("job=*/**/*.parquet"):
            file.write_bytes(b"not parquet")
    end = write_windows(
        settings, policy, START, WINDOWS, commit_each=True, loads=cpu_ms, plan_version=3
    )
    append(settings, "plans.heads", [_head(policy.job, end)])
    return TakenSnapshot(settings, policy, end, take(settings, policy, "run-1", end))


def _head(job: str, at: datetime) -> Row:
    return {
        "job": job,
        "version": 3,
        "plan_id": "p3",
        "content_hash": "c3",
        "run_id": "earlier",
        "published_at": at,
    }


def test_reads_only_files_of_the_period(taken: TakenSnapshot, spark: SparkSession) -> None:
    """The fixture broke every other file, and the query plan lists the files."""
    for name in METRICS:
        table = read_table(spark, taken.settings, name)
        files = of_job_since(table, taken.policy.job, taken.snapshot.period_start_at)
        assert len(files.inputFiles()) == WINDOWS
        assert len(table.inputFiles()) > HISTORY


def test_snapshot_row_says_what_was_read(taken: TakenSnapshot) -> None:
    snapshot = taken.snapshot
    assert snapshot.period_end_at == taken.end
    assert snapshot.period_start_at == START
    assert snapshot.windows == WINDOWS
    assert snapshot.rejected_rows == 0
    assert (snapshot.head_version, snapshot.head_plan_id) == (3, "p3")
    for name in ("key_groups", "nodes", "traffic"):
        version = open_table(taken.settings, f"metrics.{name}").version()
        assert getattr(snapshot, f"{name}_table_version") == version


def test_loads_are_means_over_the_windows(taken: TakenSnapshot) -> None:
    rows = {(r["operator_id"], r["key_group"]): r for r in taken.rows("snapshots.key_groups")}
    assert len(rows) == 8
    for (operator, group), row in rows.items():
        total_ms = sum(cpu_ms(operator, group, window) for window in range(WINDOWS))
        assert row["cpu_load_cores"] == pytest.approx(total_ms / 1000 / 30)
        assert row["network_load_bytes_per_s"] == pytest.approx(5000 / 5)
        assert row["records_per_s"] == pytest.approx(100 / 5)
        assert row["memory_load_bytes"] == row["state_bytes"] == 1000
        assert row["node_id"] == f"node-{group % 2}"


def test_nodes_have_capacity_and_state(taken: TakenSnapshot) -> None:
    rows = {row["node_id"]: row for row in taken.rows("snapshots.nodes")}
    assert (rows["node-0"]["state"], rows["node-1"]["state"]) == ("alive", "draining")
    assert rows["node-0"]["rack"] == "rack-7"
    assert rows["node-0"]["cpu_capacity_cores"] == 2
    assert rows["node-0"]["memory_capacity_bytes"] == 1e9
    assert rows["node-1"]["memory_capacity_bytes"] is None
    assert all(row["silent_windows"] == 0 for row in rows.values())
    assert all(row["last_seen_at"] == taken.end for row in rows.values())


def test_traffic_is_a_rate(taken: TakenSnapshot) -> None:
    rows = taken.rows("snapshots.traffic")
    assert len(rows) == 4
    assert {row["records_per_s"] for row in rows} == {50 / 5}
    assert {row["bytes_per_s"] for row in rows} == {1000 / 5}


def test_retry_finds_the_snapshot_without_spark(taken: TakenSnapshot) -> None:
    def no_session() -> None:
        raise AssertionError("a session was opened")

    request = SnapshotRequest(taken.policy, "run-1", taken.end + timedelta(hours=1))
    assert take_snapshot.condense(taken.settings, request, no_session) == taken.snapshot


def test_of_two_attempts_that_saw_different_versions_one_is_in_force(
    taken: TakenSnapshot, take: Condense, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt began before the first had ended, and new windows were written in
    between."""
    end = write_windows(taken.settings, taken.policy, taken.end, 1, plan_version=3)
    known = take_snapshot.snapshot_of_run
    answers = iter([None])
    monkeypatch.setattr(take_snapshot, "snapshot_of_run", lambda *args: next(answers, known(*args)))
    assert take(taken.settings, taken.policy, "run-1", end) == taken.snapshot
    rows = read_rows(taken.settings, "snapshots.snapshots", job=taken.policy.job)
    assert rows.num_rows == 1
    assert len(taken.rows("snapshots.key_groups")) == 8
