"""A version that does worse than it promised is written down, and told, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.plans import read_log
from spark_jobs.measure import Applied, tell_if_broken
from tests.support.policies import small_policy

PLAN = {"job": "probe", "plan_id": "p"}


def outcome(measured: float) -> list[dict[str, Any]]:
    return [{"figure": "load_distance_pct", "version": 3, "promised": 5.0, "measured": measured}]


def test_a_broken_promise_is_told_once_however_many_runs_see_it(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(tmp_path / "handoff.json"))
    applied = Applied(PLAN, {"version": 3}, small_policy(), None, None)
    tell_if_broken(settings, applied, outcome(15.0), "run-1")
    assert read_log(settings, "probe") == []
    tell_if_broken(settings, applied, outcome(20.0), "run-2")
    assert read_task_result(tmp_path / "handoff.json")["notice"]["kind"] == "promise_broken"
    (tmp_path / "handoff.json").unlink()
    tell_if_broken(settings, applied, outcome(21.0), "run-3")
    assert read_task_result(tmp_path / "handoff.json") == {}
    events = [(row["event"], row["version"], row["run_id"]) for row in read_log(settings, "probe")]
    assert events == [("promise_broken", 3, "run-2")]
