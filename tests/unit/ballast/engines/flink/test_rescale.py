"""The pause of a rescale, and how many records it repeats."""

from __future__ import annotations

from typing import Any

import pytest

from ballast.engines.flink.job_view import JobView, SubtaskView, VertexView
from ballast.engines.flink.rescale import (
    CountedRecords,
    RescaleStages,
    counted_records,
    newest_completed,
    pause_ms,
    records_per_s,
    stages_of,
)

HISTORY: list[dict[str, Any]] = [
    {"rescaleUuid": "c", "terminalState": None, "endTimestampInMillis": None},
    {"rescaleUuid": "b", "terminalState": "COMPLETED", "endTimestampInMillis": 500},
    {"rescaleUuid": "a", "terminalState": "COMPLETED", "endTimestampInMillis": 100},
]
DETAILS: dict[str, Any] = {
    "vertices": {"v": {"postRescaleParallelism": 1}, "c": {"postRescaleParallelism": 3}},
    "schedulerStates": [
        {"state": "Executing", "leaveTimestampInMillis": 300},
        {"state": "Restarting", "leaveTimestampInMillis": 390},
        {"state": "Executing", "leaveTimestampInMillis": 400},
    ],
}


def view(*running_since: int, records: int | None = 10) -> JobView:
    subtasks = tuple(SubtaskView(0, 1, "RUNNING", s, records, records, 1.0) for s in running_since)
    return JobView("j", "RUNNING", "Adaptive", {"count": VertexView("c", "c", "g", 8, subtasks)})


def test_the_newest_rescale_that_was_completed_counts() -> None:
    assert newest_completed(HISTORY, 0) == "b"
    assert newest_completed(HISTORY, 501) is None
    assert newest_completed([{"terminalState": "COMPLETED"}, {}], 0) is None


def test_the_pause_lasts_until_the_last_new_subtask_runs() -> None:
    stages = stages_of(DETAILS)
    assert stages == RescaleStages(300, {"v": 1, "c": 3})
    assert pause_ms(stages, view(700, 950)) == 650.0
    assert pause_ms(stages, view(200)) == 0.0


@pytest.mark.parametrize(
    "details",
    [
        {},
        {**DETAILS, "schedulerStates": []},
        {**DETAILS, "schedulerStates": None},
        {**DETAILS, "schedulerStates": [{"state": "Executing"}]},
        {**DETAILS, "vertices": {"v": {}}},
    ],
)
def test_stages_that_are_not_there_are_unknown(details: dict[str, Any]) -> None:
    assert stages_of(details) is None


def test_the_rate_is_of_the_same_subtasks() -> None:
    before, after = CountedRecords(1000, 50, ((0, 1),)), CountedRecords(3000, 250, ((0, 1),))
    assert records_per_s(before, after) == 100.0
    assert records_per_s(before, CountedRecords(3000, 250, ((1, 2),))) is None
    assert records_per_s(None, after) is None
    assert records_per_s(after, after) is None


def test_records_are_counted_only_if_every_counter_is_known() -> None:
    found = counted_records(view(1, 2), ["count"], 9)
    assert found is not None
    assert found.records == 20
    assert counted_records(view(1, records=None), ["count"], 9) is None
