"""A partition has a row only if all of its work in the window was measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ballast.contracts.tables import TABLES
from ballast.engines.kafka.messages import PartitionReport, WindowReport
from ballast.engines.kafka.window_rows import (
    Arrivals,
    CollectedWindow,
    rows_of_window,
    unknown_nodes,
)
from tests.support.policies import small_policy

POLICY = small_policy(
    job="orders", operators={"count": 3}, nodes=3, edges=[],
    engine={"kind": "kafka", "group": "g", "topics": {"count": "orders"}},
)  # fmt: skip
TOPICS = {"count": "orders"}
NOW = datetime(2026, 11, 16, 12, 0, 6, tzinfo=UTC)
START = round(datetime(2026, 11, 16, 12, 0, tzinfo=UTC).timestamp() * 1000)


def part(number: int, *, whole: bool = True, topic: str = "orders") -> PartitionReport:
    return PartitionReport(topic, number, 10 + number, 100, 5.0 + number, 8.0, whole)


def report(
    node: str, *parts: PartitionReport, process: str = "", whole: bool = True
) -> WindowReport:
    return WindowReport(node, process or node, START, 5000, 2, 25, whole, parts)


def rows(*reports: WindowReport, **arrivals: Arrivals) -> dict[str, list[dict[str, Any]]]:
    return rows_of_window(CollectedWindow(START, 5000, reports, arrivals), POLICY, TOPICS, NOW)


def key_groups(*reports: WindowReport) -> list[tuple[int, str]]:
    return [(row["key_group"], row["node_id"]) for row in rows(*reports)["metrics.key_groups"]]


def test_a_window_has_a_row_for_each_partition_node_and_topic() -> None:
    made = rows(
        report("node-0", part(0), part(2)), report("node-1", part(1)), report("node-2"),
        orders=Arrivals(40, 7),
    )  # fmt: skip
    first = made["metrics.key_groups"][0]
    assert (first["operator_id"], first["records"], first["cpu_ms"], first["bytes_in"]) == (
        "count", 10, 5.0, 100,
    )  # fmt: skip
    (source,) = made["metrics.sources"]
    assert (source["records"], source["arrived_records"], source["backlog_records"]) == (33, 40, 7)
    assert [(row["node_id"], row["cpu_used_ms"]) for row in made["metrics.nodes"]] == [
        ("node-0", 12.0), ("node-1", 6.0), ("node-2", 0),
    ]  # fmt: skip
    assert list(made) == ["metrics.key_groups", "metrics.sources", "metrics.nodes"]


def test_rows_have_the_columns_of_their_tables() -> None:
    for table, made in rows(report("node-0", part(0), part(1), part(2))).items():
        required = {c.name for c in TABLES[table].columns if not c.nullable}
        assert required <= set(made[0]) <= set(TABLES[table].column_names)


def test_the_batch_of_a_window_is_its_number_since_1970() -> None:
    (row, *_) = rows(report("node-0", part(0)))["metrics.key_groups"]
    assert row["first_batch_id"] == row["last_batch_id"] == START // 5000
    assert row["plan_version"] == 2


def test_a_partition_that_changed_its_owner_has_no_row() -> None:
    moved = report("node-1", part(1), part(2, whole=False))
    assert key_groups(report("node-0", part(0)), moved) == [(0, "node-0"), (1, "node-1")]


def test_a_partition_that_two_members_report_has_no_row() -> None:
    assert key_groups(report("node-0", part(0)), report("node-1", part(0), part(1))) == [
        (1, "node-1")
    ]


def test_a_topic_with_an_unmeasured_partition_has_no_row_of_its_source() -> None:
    assert rows(report("node-0", part(0), part(1)))["metrics.sources"] == []


def test_a_node_that_did_not_measure_the_whole_window_is_silent() -> None:
    made = rows(report("node-0", part(0)), report("node-1", whole=False))
    assert [row["node_id"] for row in made["metrics.nodes"]] == ["node-0"]


def test_two_processes_of_a_node_are_one_row() -> None:
    made = rows(report("node-0", part(0)), report("node-0", part(1), process="other"))
    (row,) = made["metrics.nodes"]
    assert (row["heartbeats"], row["records"]) == (50, 21)


def test_a_node_that_the_policy_lacks_is_named_and_left_out() -> None:
    strange = report("node-9", part(0))
    assert key_groups(strange, report("node-0", part(1))) == [(1, "node-0")]
    window = CollectedWindow(START, 5000, (strange, report("node-0")), {})
    assert unknown_nodes(window, POLICY) == ["node-9"]


def test_partitions_that_the_policy_does_not_know_are_left_out() -> None:
    others = (part(0), part(7), replace(part(1), topic="payments"))
    assert key_groups(report("node-0", *others)) == [(0, "node-0")]


def test_offsets_that_were_not_asked_for_in_time_are_unknown() -> None:
    (source,) = rows(report("node-0", part(0), part(1), part(2)))["metrics.sources"]
    assert (source["arrived_records"], source["backlog_records"]) == (None, None)
