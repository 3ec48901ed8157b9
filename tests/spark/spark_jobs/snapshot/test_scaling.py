"""A snapshot of a job that is scaled: series back to the last round, sources, nodes in use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from ballast.store.tables import read_rows
from tests.spark.spark_jobs.snapshot.conftest import Condense
from tests.support.metrics import START, round_robin, write_windows
from tests.support.policies import small_policy
from tests.support.streaming_plans import publish

NODES = ["a", "b", {"id": "c", "spare": True}]
POLICY = small_policy(nodes=NODES, scaling={"interval_s": 120.0})
WINDOWS = 12
SnapshotAndDetails = tuple[Snapshot, dict[str, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def settings(make_settings: Callable[[], Settings]) -> Settings:
    return make_settings()


@pytest.fixture(scope="module")
def first(settings: Settings, take: Condense) -> SnapshotAndDetails:
    """A minute of windows for a period of half a minute; one window lacks a key group."""

    def change(table: str, row: dict[str, Any]) -> dict[str, Any] | None:
        lacks = (
            table == "metrics.key_groups" and row["key_group"] == 0 and row["first_batch_id"] == 2
        )
        return None if lacks and row["operator_id"] == "parse" else row

    end = write_windows(
        settings, POLICY, START, WINDOWS, backlog=40, change=change,
        loads=lambda operator, group, window: 50.0 if window < 6 else 100.0,
    )  # fmt: skip
    return snapshot(settings, take(settings, POLICY, "run-1", end))


def snapshot(settings: Settings, row: Snapshot) -> SnapshotAndDetails:
    where = [("snapshot_id", "=", row.snapshot_id)]
    parts = ("load_series", "sources", "nodes")
    return row, {
        part: read_rows(settings, f"snapshots.{part}", job="probe", where=where).to_pylist()
        for part in parts
    }


def test_series_reach_back_beyond_the_period_and_leave_out_incomplete_windows(
    first: SnapshotAndDetails,
) -> None:
    _, parts = first
    own = [r for r in parts["load_series"] if (r["operator_id"], r["key_group"]) == ("count", 1)]
    series = {r["step_end_at"]: r for r in own}
    assert len(series) == WINDOWS - 1
    assert START + timedelta(seconds=15) not in series
    loads = [series[end]["cpu_load_cores"] for end in sorted(series)]
    assert loads == pytest.approx([0.01] * 5 + [0.02] * 6)
    assert {r["step_s"] for r in own} == {5.0}
    assert own[0]["busy_load_cores"] == pytest.approx(1.5 * own[0]["cpu_load_cores"])


def test_sources_and_nodes_in_use_are_part_of_it_and_spares_are_not_missed(
    first: SnapshotAndDetails,
) -> None:
    row, parts = first
    (source,) = parts["sources"]
    assert (source["source_id"], source["operator_id"]) == ("parse", "parse")
    assert (source["arrival_records_per_s"], source["backlog_records"]) == (20.0, 40)
    assert {node["node_id"] for node in parts["nodes"]} == {"a", "b"}
    assert row.sources_table_version is not None
    assert row.applied_plan_id is None


def test_nodes_in_use_are_those_of_the_plan_that_the_newest_window_ran_under(
    first: SnapshotAndDetails, settings: Settings, take: Condense
) -> None:
    actions = {"a": "drain", "b": "remove", "c": "add"}
    placed = {group: "ac"[group[1] % 2] for group in round_robin(POLICY)}
    plan_id = publish(settings, POLICY, 1, lambda op, group: placed[op, group], nodes=actions)
    later = START + timedelta(seconds=5 * WINDOWS)

    def change(table: str, row: dict[str, Any]) -> dict[str, Any]:
        return row | {"backlog_records": None} if table == "metrics.sources" else row

    end = write_windows(
        settings, POLICY, later, 6, nodes=placed, in_use=["a", "c"], plan_version=1, backlog=40,
        change=change,
    )  # fmt: skip
    row, parts = snapshot(settings, take(settings, POLICY, "run-2", end))
    assert row.applied_plan_id == plan_id
    assert {n["node_id"]: n["state"] for n in parts["nodes"]} == {"a": "draining", "c": "alive"}
    assert row.windows == 6
    (source,) = parts["sources"]
    assert source["backlog_records"] is None, "the newest window does not tell, so it is unknown"
    assert source["arrival_records_per_s"] == 20.0
