"""``measure`` on Spark: broken promises stop planning, and kept ones resume it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.records import Draft, LogEntry
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.planning import read_planning_state
from ballast.store.plans import (
    read_assignment,
    read_log,
    read_outcomes,
    read_plans,
    read_promises,
)
from ballast.store.tables import append
from spark_jobs.outcome import planning_events
from spark_jobs.outcome.outcome_tables import write_outcomes as write_measured
from spark_jobs.outcome.plan_measurement import measure_plan
from spark_jobs.outcome.planning_events import ResumeRequest
from spark_jobs.publication.heads import head_of
from tests.support.metrics import START, write_windows
from tests.support.outcomes import first_outcomes, write_outcomes
from tests.support.policies import small_policy, write_policy
from tests.support.snapshots import uneven, write_draft

JOB = "probe"
POLICY = small_policy(JOB)
SLOW = "node-1"
WINDOWS = 6
PERIOD = timedelta(seconds=POLICY.window_s * WINDOWS)


@pytest.fixture
def sessions(spark: Any) -> Any:
    return lambda: nullcontext(spark)


def no_session() -> Any:
    raise AssertionError("a Spark session was asked for")


@pytest.fixture
def draft(settings: Settings) -> Draft:
    """Version 3, in force and applied, after two versions that broke their promises."""
    write_policy(settings.policies, POLICY)
    write_draft(settings, POLICY, "run-1", placement=uneven(POLICY), noise_pct=2.0)
    (made,) = read_plans(settings, JOB)
    head = replace(head_of(made, datetime.now(UTC)), version=3)
    append(settings, "plans.heads", [head.to_row()])
    append(settings, "plans.acks", [{
        "job": JOB, "version": 3, "plan_id": made.plan_id, "status": "applied", "batch_id": 0,
        "reason": "", "moved_key_groups": 4, "bytes_moved": 4100, "pause_ms": 250.0,
        "acked_at": START,
    }])  # fmt: skip
    write_outcomes(settings, first_outcomes("above", "above"))
    return made


def write_period(settings: Settings, draft: Draft, number: int, slow: float = 1.0) -> datetime:
    """Windows under version 3, in which records cost more on one node; returns their end."""
    rows = read_assignment(settings, JOB, draft.plan_id)
    placed = {(row.operator_id, row.key_group): row.node_id for row in rows}

    def loads(operator: str, group: int, window: int) -> float:
        ripple = 1.0 + 0.02 * ((7 * window + 3 * group + len(operator)) % 5 - 2)
        return 500.0 * ripple * (slow if placed[operator, group] == SLOW else 1.0)

    def versioned(_table: str, row: dict[str, Any]) -> dict[str, Any]:
        return row | {"plan_version": 3, "first_batch_id": row["first_batch_id"] + 100 * number,
                      "last_batch_id": row["last_batch_id"] + 100 * number}  # fmt: skip

    start = START + number * PERIOD
    return write_windows(settings, POLICY, start, WINDOWS, nodes=placed, loads=loads,
                         change=versioned)  # fmt: skip


def as_promised(settings: Settings, draft: Draft) -> float:
    """The slowness of one of the two nodes at which the load distance is in the middle of its
    interval."""
    promises = read_promises(settings, JOB, draft.plan_id)
    (promise,) = [row for row in promises if row.figure == "load_distance_pct"]
    assert promise.low is not None
    assert promise.high is not None
    middle = (promise.low + promise.high) / 200
    return (1 + middle) / (1 - middle)


def planning_events_of(settings: Settings) -> list[LogEntry]:
    return [entry for entry in read_log(settings, JOB) if entry.event.startswith("planning_")]


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which the program writes the result of its task."""
    path = tmp_path / "task-result.json"
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(path))
    return path


def test_the_third_broken_promise_stops_planning_and_a_kept_one_resumes_it(
    settings: Settings, sessions: Any, draft: Draft, result: Path
) -> None:
    end = write_period(settings, draft, 0, slow=1.5)
    measured = measure_plan(settings, JOB, "r1", sessions, end)
    assert {row.figure: row.side for row in measured}["load_distance_pct"] == "above"
    assert read_planning_state(settings, JOB).versions == (1, 2, 3)
    (stop,) = planning_events_of(settings)
    assert (stop.event, stop.version, stop.plan_id) == ("planning_stopped", 3, draft.plan_id)
    assert f"most likely reason: node {SLOW} is slower than its capacity says" in stop.reason
    kinds = [notice["kind"] for notice in read_task_result(result)["notices"]]
    assert kinds == ["promise_broken", "planning_stopped"]
    assert read_task_result(result)["planning"] == "planning_stopped"
    # A repetition of the run, and another run with the same finding, log nothing more.
    result.unlink()
    measure_plan(settings, JOB, "r1", no_session, end)
    assert [notice["kind"] for notice in read_task_result(result)["notices"]] == [
        "promise_broken", "planning_stopped"]  # fmt: skip
    result.unlink()
    end = write_period(settings, draft, 1, slow=1.5)
    measure_plan(settings, JOB, "r2", sessions, end)
    assert read_task_result(result)["notices"] == []
    assert len(planning_events_of(settings)) == 1

    end = write_period(settings, draft, 2, slow=as_promised(settings, draft))
    measured = measure_plan(settings, JOB, "r3", sessions, end)
    assert {row.figure: row.side for row in measured}["load_distance_pct"] == "inside"
    assert [entry.event for entry in planning_events_of(settings)] == [
        "planning_stopped", "planning_resumed"]  # fmt: skip
    (notice,) = read_task_result(result)["notices"]
    assert (notice["kind"], f"job {JOB}: a promise is kept" in notice["text"]) == (
        "planning_resumed", True)  # fmt: skip
    assert not read_planning_state(settings, JOB).is_stopped


def test_a_run_that_was_killed_after_its_outcomes_logs_the_stop_when_it_is_retried(
    settings: Settings, sessions: Any, draft: Draft, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = write_period(settings, draft, 0, slow=1.5)

    class KilledHereError(Exception):
        pass

    def kill(name: str) -> None:
        if name == "measure.before_planning_event":
            raise KilledHereError

    monkeypatch.setattr(planning_events, "fault_point", kill)
    with pytest.raises(KilledHereError):
        measure_plan(settings, JOB, "r1", sessions, end)
    monkeypatch.undo()
    assert planning_events_of(settings) == []
    assert read_planning_state(settings, JOB).is_stopped
    rows = read_outcomes(settings, JOB)
    measure_plan(settings, JOB, "r1", sessions, end)
    (stop,) = planning_events_of(settings)
    assert f"node {SLOW} is slower" in stop.reason
    assert read_outcomes(settings, JOB) == rows


def test_a_person_resumes_before_the_run_measures(
    settings: Settings, sessions: Any, draft: Draft
) -> None:
    end = write_period(settings, draft, 0, slow=1.5)
    measure_plan(settings, JOB, "r1", sessions, end)
    ada = ResumeRequest("ada", "the machine is repaired")
    end = write_period(settings, draft, 1, slow=1.5)
    for _ in range(2):
        measure_plan(settings, JOB, "r2", sessions, end, ada)
    resumed = planning_events_of(settings)[-1]
    assert (resumed.event, resumed.actor, resumed.reason) == (
        "planning_resumed", "ada", "the machine is repaired")  # fmt: skip
    assert len(planning_events_of(settings)) == 2
    # The outcome of this run is not the first of its version.
    assert not read_planning_state(settings, JOB).broken


def test_a_version_that_another_run_has_measured_too_stops_planning_once(
    settings: Settings, sessions: Any, draft: Draft
) -> None:
    end = write_period(settings, draft, 0, slow=1.5)
    first = measure_plan(settings, JOB, "r1", sessions, end)
    write_measured(settings, [replace(row, run_id="r2") for row in first])
    measure_plan(settings, JOB, "r2", no_session, end)
    assert len(planning_events_of(settings)) == 1


def test_a_job_without_a_plan_to_measure_still_follows_its_policy(settings: Settings) -> None:
    write_policy(settings.policies, POLICY)
    write_outcomes(settings, first_outcomes("above", "above", "above"))
    assert measure_plan(settings, JOB, "r1", no_session, datetime.now(UTC)) == []
    (stop,) = planning_events_of(settings)
    assert "most likely reason: unknown, because this run measured no loads" in stop.reason
    never = small_policy(JOB, thresholds={"stop_after_broken_promises": None})
    write_policy(settings.policies, never)
    measure_plan(settings, JOB, "r2", no_session, datetime.now(UTC))
    assert planning_events_of(settings)[-1].event == "planning_resumed"
