"""A version that does worse than it promised is written down, and told, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.records import Outcome
from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.plans import read_log
from spark_jobs.outcome.plan_measurement import report_broken_promise
from tests.support.policies import small_policy
from tests.support.rows import row_of


def outcome(measured: float, run_id: str) -> list[Outcome]:
    row = row_of(
        Outcome.table, job="probe", plan_id="p", figure="load_distance_pct", version=3,
        promised=5.0, measured=measured, run_id=run_id,
    )  # fmt: skip
    return [Outcome.from_row(row)]


def test_a_broken_promise_is_told_once_however_many_runs_see_it(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(tmp_path / "handoff.json"))
    report_broken_promise(settings, small_policy(), outcome(15.0, "run-1"), {})
    assert read_log(settings, "probe") == []
    report_broken_promise(settings, small_policy(), outcome(20.0, "run-2"), {})
    assert read_task_result(tmp_path / "handoff.json")["notice"]["kind"] == "promise_broken"
    (tmp_path / "handoff.json").unlink()
    report_broken_promise(settings, small_policy(), outcome(21.0, "run-3"), {})
    assert read_task_result(tmp_path / "handoff.json") == {}
    events = [(row.event, row.version, row.run_id) for row in read_log(settings, "probe")]
    assert events == [("promise_broken", 3, "run-2")]
