"""Rows come from differences of counters, and only where all of a window was measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ballast.contracts.tables import TABLES
from ballast.engines.flink.counters import JobSample, work_between
from ballast.engines.flink.job_view import JobView, SubtaskView, VertexView
from ballast.engines.flink.window_rows import MeasuredWindow, rows_of_window
from tests.support.visits_job import flink_policy

POLICY = flink_policy("visits")
NOW = datetime(2026, 11, 16, 12, 0, 6, tzinfo=UTC)
START = round(datetime(2026, 11, 16, 12, 0, tzinfo=UTC).timestamp() * 1000)


def subtask(records: int | None, busy: float | None, started: int = 1) -> SubtaskView:
    return SubtaskView(0, started, "RUNNING", 5, records, records, busy)


def sample(*counts: SubtaskView, read: int = 0, **fields: Any) -> JobSample:
    vertices = {
        "visits": VertexView("v", "Source: visits", "g", 128, (subtask(read, 10.0),)),
        "count": VertexView("c", "count -> end: Writer", "g", 128, counts),
    }
    view = JobView("j1", "RUNNING", "Adaptive", vertices)
    return replace(
        JobSample(
            view, 3, {"visits": 1, "count": len(counts)}, {"visits": 7},
            {"visits": (0,), "count": (5,) * len(counts)},
        ),
        **fields,
    )  # fmt: skip


BEFORE = sample(subtask(100, 1000.0), subtask(50, 900.0), read=150)
AFTER = sample(subtask(160, 2500.0), subtask(80, 1500.0), read=250, pending={"visits": 27})


def rows(before: JobSample = BEFORE, after: JobSample = AFTER) -> dict[str, list[dict[str, Any]]]:
    return rows_of_window(MeasuredWindow(START, 3000, before, after, 4), POLICY, NOW)


def test_a_window_has_a_row_for_each_subtask_that_plans_may_give() -> None:
    made = rows()
    count = [row for row in made["metrics.key_groups"] if row["operator_id"] == "count"]
    assert [(row["key_group"], row["records"], row["busy_ms"], row["state_bytes"])
            for row in count] == [
        (0, 60, 1500.0, 5), (1, 30, 600.0, 5), *((n, 0, 0.0, 0) for n in range(2, 6)),
    ]  # fmt: skip
    (read,) = (row for row in made["metrics.key_groups"] if row["operator_id"] == "visits")
    assert (read["records"], read["plan_version"], read["node_id"]) == (100, 3, "cluster")
    (cluster,) = made["metrics.nodes"]
    assert (cluster["heartbeats"], cluster["records"]) == (4, 190)
    assert list(made) == ["metrics.key_groups", "metrics.sources", "metrics.nodes"]


def test_arrivals_are_what_was_read_and_what_waits_more() -> None:
    (source,) = rows()["metrics.sources"]
    assert (source["records"], source["arrived_records"], source["backlog_records"]) == (
        100, 120, 27,
    )  # fmt: skip
    (unknown,) = rows(before=replace(BEFORE, pending={"visits": None}))["metrics.sources"]
    assert (unknown["arrived_records"], unknown["backlog_records"]) == (None, 27)
    (silent,) = rows(after=replace(AFTER, pending={"visits": None}))["metrics.sources"]
    assert (silent["arrived_records"], silent["backlog_records"]) == (None, None)


def test_every_row_has_all_columns_that_may_not_be_null() -> None:
    for table, made in rows().items():
        for column in TABLES[table].columns:
            assert column.nullable or all(row[column.name] is not None for row in made), column


@pytest.mark.parametrize(
    "after",
    [
        sample(subtask(160, 2500.0, started=9), subtask(80, 1500.0)),
        sample(subtask(160, 2500.0), subtask(40, 1500.0)),
        sample(subtask(160, 2500.0), subtask(None, 1500.0)),
        sample(subtask(160, 2500.0), subtask(80, None)),
        replace(AFTER, state_bytes={"visits": (0,), "count": None}),
    ],
)
def test_an_operator_that_was_not_measured_all_the_time_is_a_gap(after: JobSample) -> None:
    made = rows(after=after)["metrics.key_groups"]
    assert "count" not in {row["operator_id"] for row in made}


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 4},
        {"view": replace(AFTER.view, job_id="j2")},
    ],
)
def test_a_window_under_two_versions_or_of_two_jobs_is_a_gap(changed: dict[str, Any]) -> None:
    assert rows(after=replace(AFTER, **changed))["metrics.key_groups"] == []


@pytest.mark.parametrize(
    "after",
    [
        replace(AFTER, planned={"visits": 1, "count": 3}),
        replace(AFTER, view=replace(AFTER.view, state="RESTARTING")),
    ],
)
def test_a_job_that_does_not_run_as_planned_has_no_rows_at_all(after: JobSample) -> None:
    assert not any(rows(after=after).values())


def test_a_busy_time_that_goes_back_a_little_is_none() -> None:
    work = work_between(BEFORE, sample(subtask(160, 999.0), subtask(80, 1500.0)), "count")
    assert work is not None
    assert work[0].busy_ms == 0.0


def test_work_is_by_subtask() -> None:
    work = work_between(BEFORE, AFTER, "count")
    assert work is not None
    assert [(each.records_in, each.busy_ms) for each in work] == [(60, 1500.0), (30, 600.0)]
