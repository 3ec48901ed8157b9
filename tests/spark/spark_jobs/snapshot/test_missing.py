"""Missing metrics: the gate names what is missing; only a dead node does not fail it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ballast.contracts.errors import GateFailed
from ballast.contracts.settings import Settings
from ballast.store.plans import read_log
from ballast.store.snapshots import read_noise
from ballast.store.tables import append, read_rows
from spark_jobs.snapshot.incomplete_period import expected_groups
from spark_jobs.snapshot.loads import LOADS
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.stranded_key_groups import KnownLoads, stranded_loads
from spark_jobs.snapshot.take_snapshot import condense
from tests.spark.spark_jobs.snapshot.conftest import Condense
from tests.support.metrics import START, round_robin, write_windows
from tests.support.policies import small_policy
from tests.support.streaming_plans import publish

Row = dict[str, Any]
POLICY = small_policy()
WINDOW = timedelta(seconds=5)


def _no_session() -> None:
    raise AssertionError("a session was opened")


def _snapshots(settings: Settings) -> int:
    return read_rows(settings, "snapshots.snapshots", job=POLICY.job).num_rows


def test_no_metrics_at_all_fails_without_spark(settings: Settings) -> None:
    with pytest.raises(GateFailed, match=r"has no metrics .* start the streaming job"):
        condense(settings, SnapshotRequest(POLICY, "run-1", START), _no_session)
    assert [row.event for row in read_log(settings, POLICY.job)] == ["gate_failed"]


def test_a_silent_job_fails_without_spark(settings: Settings) -> None:
    end = write_windows(settings, POLICY, START, 6)
    with pytest.raises(GateFailed, match=r"silent since 2026-11-16T12:00:30Z"):
        condense(
            settings, SnapshotRequest(POLICY, "run-1", end + timedelta(seconds=61)), _no_session
        )


def test_a_window_in_the_future_is_not_a_sign_of_life(settings: Settings) -> None:
    end = write_windows(settings, POLICY, START, 6)
    write_windows(settings, POLICY, START + timedelta(days=400), 1)
    with pytest.raises(GateFailed, match=r"silent since 2026-11-16T12:00:30Z"):
        condense(settings, SnapshotRequest(POLICY, "run-1", end + timedelta(hours=1)), _no_session)


def _publish(settings: Settings, version: int) -> None:
    head = {"job": POLICY.job, "version": version, "plan_id": "p", "content_hash": "c",
            "run_id": "r", "published_at": START}  # fmt: skip
    append(settings, "plans.heads", [head])


def test_a_version_that_is_not_taken_up_yet_fails_without_spark(settings: Settings) -> None:
    end = write_windows(settings, POLICY, START, 6, plan_version=1)
    _publish(settings, 2)
    with pytest.raises(GateFailed, match=r"version 2 .* not taken up: .* under version 1"):
        condense(settings, SnapshotRequest(POLICY, "run-1", end), _no_session)
    assert _snapshots(settings) == 0


def test_a_version_that_the_job_refused_is_not_waited_for(
    settings: Settings, take: Condense
) -> None:
    end = write_windows(settings, POLICY, START, 6, plan_version=1)
    _publish(settings, 2)
    refused = {"job": POLICY.job, "version": 2, "plan_id": "p", "status": "refused",
               "batch_id": 9, "reason": "unknown node", "moved_key_groups": 0,
               "bytes_moved": 0, "pause_ms": 0.0, "acked_at": end}  # fmt: skip
    append(settings, "plans.acks", [refused])
    assert take(settings, POLICY, "run-1", end).head_version == 2


def _taken_up(settings: Settings, at_batch: int) -> None:
    _publish(settings, 1)
    applied = {"job": POLICY.job, "version": 1, "plan_id": "p", "status": "applied",
               "batch_id": at_batch, "reason": "", "moved_key_groups": 1, "bytes_moved": 9,
               "pause_ms": 1.0, "acked_at": START}  # fmt: skip
    append(settings, "plans.acks", [applied])


def _moved(after_batch: int):  # type: ignore[no-untyped-def]
    """Key group 0 of parse is on the other node from a batch on, and costs three times as much.

    The window of the batch before has the version already, and half of each.
    """

    def change(table: str, row: Row) -> Row:
        number = (row["window_start_at"] - START) // WINDOW
        row |= {"first_batch_id": number, "last_batch_id": number}
        if number < after_batch - 1:
            return row
        row |= {"plan_version": 1}
        if table == "metrics.key_groups" and (row["operator_id"], row["key_group"]) == ("parse", 0):
            row |= {"node_id": "node-1", "cpu_ms": 300.0 if number >= after_batch else 200.0}
        return row

    return change


def test_windows_from_before_a_take_up_are_not_mixed_with_those_after_it(
    settings: Settings, take: Condense
) -> None:
    end = write_windows(settings, POLICY, START, 9, loads=100.0, change=_moved(4))
    _taken_up(settings, at_batch=4)
    snapshot = take(settings, POLICY, "run-1", end)
    assert snapshot.windows == 5
    # Loads are constant before and after it: noise would come from the take-up alone.
    assert {(row.windows, row.common_sd_pct) for row in read_noise(settings, snapshot)} == {(5, 0)}
    rows = read_rows(settings, "snapshots.key_groups", job=POLICY.job).to_pylist()
    (moved,) = [r for r in rows if (r["operator_id"], r["key_group"]) == ("parse", 0)]
    assert (moved["node_id"], moved["cpu_load_cores"]) == ("node-1", pytest.approx(0.3 / 5))
    assert {row["cpu_window_sd_cores"] for row in rows} == {0.0}
    traffic = read_rows(settings, "metrics.traffic", job=POLICY.job).to_pylist()
    whole = {r["window_end_at"] for r in traffic if r["first_batch_id"] >= 4}
    sent = sum(r["records"] for r in traffic if r["window_end_at"] in whole)
    rates = read_rows(settings, "snapshots.traffic", job=POLICY.job)["records_per_s"]
    assert sum(rates.to_pylist()) == pytest.approx(sent / (5 * len(whole)))


def test_too_few_windows_after_a_take_up_fail_the_gate_which_says_when_there_are_enough(
    settings: Settings, take: Condense
) -> None:
    end = write_windows(settings, POLICY, START, 7, change=_moved(4))
    _taken_up(settings, at_batch=4)
    expected = (
        r"3 of the 6 windows .* are complete, 5 are needed; missing since .*: 3 windows that did "
        r"not run wholly under version 1, .*opens at 2026-11-16T12:00:45Z"
    )
    with pytest.raises(GateFailed, match=expected):
        take(settings, POLICY, "run-1", end)
    assert _snapshots(settings) == 0
    # Two windows later, at the time that the message named.
    later = write_windows(settings, POLICY, end, 2, plan_version=1, change=_batches_from(7))
    assert take(settings, POLICY, "run-2", later).windows == 5


def _batches_from(first: int):  # type: ignore[no-untyped-def]
    def change(_table: str, row: Row) -> Row:
        number = row["first_batch_id"] + first
        return row | {"first_batch_id": number, "last_batch_id": number}

    return change


def test_key_groups_missing_in_too_many_windows_are_named(
    settings: Settings, take: Condense
) -> None:
    """The log has one row for each reason after several retries, and there is no snapshot."""

    def without_two(table: str, row: Row) -> Row | None:
        missing = table == "metrics.key_groups" and row["operator_id"] == "count"
        early = row["window_end_at"] <= START + 2 * WINDOW
        return None if missing and early and row["key_group"] in (1, 2) else row

    end = write_windows(settings, POLICY, START, 6, change=without_two, traffic=False)
    expected = (
        r"4 of the 6 windows .* are complete, 5 are needed; missing since the window "
        r"that ends at .*Z: key groups of count 1-2 \(2 of 4\).*opens at 2026-11-16T12:00:35Z"
    )
    for _ in range(2):
        with pytest.raises(GateFailed, match=expected) as failed:
            take(settings, POLICY, "run-1", end)
    log = read_log(settings, POLICY.job)
    assert [(row.event, row.run_id, row.reason) for row in log] == [
        ("gate_failed", "run-1", str(failed.value))
    ]
    assert _snapshots(settings) == 0


def test_a_node_that_just_fell_silent_fails_the_gate(settings: Settings, take: Condense) -> None:
    end = write_windows(settings, POLICY, START, 6, silent={"node-1": [4, 5]})
    expected = r"1 of 2 nodes silent .*node-1 since 2026-11-16T12:00:20Z.*12:00:40Z"
    with pytest.raises(GateFailed, match=expected):
        take(settings, POLICY, "run-1", end)
    assert _snapshots(settings) == 0


def test_key_groups_of_a_dead_node_keep_their_last_known_loads(
    settings: Settings, take: Condense
) -> None:
    """They were silent before the period in which nodes are read, and no earlier snapshot
    exists."""

    def loads(_operator: str, group: int, window: int) -> float:
        return 100.0 * (group + 1) if window < 6 else 7.0

    end = write_windows(settings, POLICY, START, 20, loads=loads, silent={"node-1": range(6, 20)})
    snapshot = take(settings, POLICY, "run-1", end)
    assert snapshot.windows == 6
    nodes = read_rows(settings, "snapshots.nodes", job=POLICY.job).to_pylist()
    assert {row["node_id"]: row["state"] for row in nodes} == {"node-0": "alive", "node-1": "dead"}
    rows = read_rows(settings, "snapshots.key_groups", job=POLICY.job).to_pylist()
    assert len(rows) == 8
    for row in rows:
        stranded = row["key_group"] % 2 == 1
        assert row["node_id"] == ("node-1" if stranded else "node-0")
        cpu_ms = 100.0 * (row["key_group"] + 1) if stranded else 7.0
        assert row["cpu_load_cores"] == pytest.approx(cpu_ms / 1000 / 5)


def test_a_new_node_that_dies_before_its_first_metrics_does_not_fail_the_gate(
    settings: Settings, take: Condense
) -> None:
    """Key group 0 last reported from node-0, which is alive; the plan has moved it to node-1."""
    placed = {**round_robin(POLICY), ("count", 0): "node-1"}
    taken_up = write_windows(settings, POLICY, START, 6)
    publish(settings, POLICY, 1, lambda operator, group: placed[operator, group])
    end = write_windows(
        settings, POLICY, taken_up, 20, nodes=placed, plan_version=1, silent={"node-1": range(20)}
    )
    take(settings, POLICY, "run-1", end)
    rows = read_rows(settings, "snapshots.key_groups", job=POLICY.job).to_pylist()
    assert {(row["operator_id"], row["key_group"]): row["node_id"] for row in rows} == placed


def test_metrics_tell_of_a_stranded_key_group_before_the_snapshot_does(
    spark: SparkSession,
) -> None:
    def frame(rows: list[tuple[int, str]]):  # type: ignore[no-untyped-def]
        schema = (
            "operator_id STRING, key_group BIGINT, node_id STRING, cpu_load_cores DOUBLE, "
            "wire_load_cores DOUBLE, memory_load_bytes DOUBLE, network_load_bytes_per_s DOUBLE, "
            "records_per_s DOUBLE, state_bytes BIGINT"
        )
        return spark.createDataFrame(
            [("count", group, node, 1.0, 1.0, 1.0, 1.0, 1.0, 1) for group, node in rows], schema
        )

    measured = frame([(0, "dead"), (1, "alive")])
    snapshot = frame([(0, "alive"), (1, "dead"), (2, "dead")])
    found = stranded_loads(KnownLoads(measured, snapshot), ["dead"]).select(*LOADS).collect()
    assert {(row["key_group"], row["node_id"]) for row in found} == {(0, "dead"), (2, "dead")}


def test_every_key_group_of_the_policy_is_expected(spark: SparkSession) -> None:
    rows = expected_groups(spark, small_policy(operators={"a": 1, "b": 3})).collect()
    assert {tuple(row) for row in rows} == {("a", 0), ("b", 0), ("b", 1), ("b", 2)}
