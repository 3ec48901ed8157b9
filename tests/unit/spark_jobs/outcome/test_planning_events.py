"""Stops and resumptions of planning are logged once each, also after kills and beside other
runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ballast.contracts.planning_stop import PlanningState
from ballast.contracts.records import LogEntry
from ballast.contracts.settings import Settings
from ballast.store.plans import read_log
from spark_jobs.outcome import planning_events
from spark_jobs.outcome.planning_events import PlanningLog, ResumeRequest
from tests.support.outcomes import JOB, first_outcomes, outcome, write_outcomes
from tests.support.policies import small_policy, write_policy

ADA = ResumeRequest("ada", "the machine is repaired")


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """With a folder of policies of its own."""
    return replace(settings, policies=tmp_path / "policies")


@pytest.fixture
def broken(settings: Settings) -> Settings:
    """A job with three broken promises in a row."""
    set_policy(settings)
    write_outcomes(settings, first_outcomes("above", "below", "above"))
    return settings


def set_policy(settings: Settings, **thresholds: Any) -> None:
    write_policy(settings.policies, small_policy(JOB, thresholds=thresholds))


def events(settings: Settings) -> list[LogEntry]:
    return [entry for entry in read_log(settings, JOB) if entry.event.startswith("planning_")]


def names(settings: Settings) -> list[tuple[str, int | None]]:
    return [(entry.event, entry.version) for entry in events(settings)]


def run(settings: Settings, run_id: str) -> PlanningLog:
    return PlanningLog(settings, JOB, run_id)


def test_a_stop_is_logged_with_its_cause_and_what_to_do(broken: Settings) -> None:
    asked: list[PlanningState] = []
    found = run(broken, "r1").update(lambda state: asked.append(state) or "moonlight")
    assert found.is_stopped
    assert asked[0].versions == (1, 2, 3)
    (stop,) = events(broken)
    assert (stop.event, stop.version, stop.plan_id, stop.run_id, stop.actor) == (
        "planning_stopped", 3, "plan-3", "r1", "measure of run r1")  # fmt: skip
    assert "of 3 plans in a row was outside" in stop.reason
    assert "most likely reason: moonlight;" in stop.reason
    assert f"ballast resume {JOB} --reason" in stop.reason
    assert run(broken, "r1").state.reason == stop.reason


def test_a_stop_is_logged_once_for_a_row_however_long_the_row_gets(broken: Settings) -> None:
    for version, run_id in ((4, "r1"), (5, "r2")):
        run(broken, run_id).update()
        write_outcomes(broken, [outcome(version, "above")])
    run(broken, "r3").update(lambda _: pytest.fail("no cause is looked for twice"))
    assert names(broken) == [("planning_stopped", 3)]


def test_a_kept_promise_resumes_once(broken: Settings) -> None:
    run(broken, "r1").update()
    write_outcomes(broken, [outcome(3, "inside", 10)])
    for run_id in ("r2", "r2", "r3"):
        assert not run(broken, run_id).update().is_stopped
    assert names(broken) == [("planning_stopped", 3), ("planning_resumed", 3)]
    assert events(broken)[-1].reason == (
        "a promise is kept: version 3 5.00 % (promised 4.00 to 6.00)"
    )


def test_the_next_row_stops_again(broken: Settings) -> None:
    run(broken, "r1").update()
    write_outcomes(broken, [outcome(3, "inside", 10)])
    run(broken, "r2").update()
    write_outcomes(broken, [outcome(version, "above") for version in (4, 5, 6)])
    run(broken, "r3").update()
    assert names(broken)[2:] == [("planning_stopped", 6)]


def test_a_person_resumes_with_name_and_reason(broken: Settings) -> None:
    run(broken, "r1").update()
    run(broken, "r2").resume(ADA)
    resumed = events(broken)[-1]
    assert (resumed.event, resumed.version, resumed.actor, resumed.reason) == (
        "planning_resumed", 3, "ada", ADA.reason)  # fmt: skip
    assert not run(broken, "r2").update().is_stopped
    assert len(events(broken)) == 2


def test_a_task_that_is_cleared_later_does_not_resume_a_second_time(broken: Settings) -> None:
    run(broken, "r1").update()
    run(broken, "r2").resume(ADA)
    run(broken, "r2").resume(ADA)
    write_outcomes(broken, [outcome(version, "above") for version in (4, 5, 6)])
    assert run(broken, "r3").update().is_stopped
    run(broken, "r2").resume(ADA)
    assert run(broken, "r4").state.is_stopped
    assert names(broken) == [
        ("planning_stopped", 3), ("planning_resumed", 3), ("planning_stopped", 6)
    ]  # fmt: skip


def test_resuming_a_job_that_plans_changes_nothing(settings: Settings) -> None:
    set_policy(settings)
    write_outcomes(settings, first_outcomes("above", "above"))
    run(settings, "r1").resume(ADA)
    assert events(settings) == []
    assert run(settings, "r1").state.versions == (1, 2)


def test_a_stop_that_nobody_has_logged_is_in_the_log_before_its_end(broken: Settings) -> None:
    run(broken, "r1").resume(ADA)
    assert names(broken) == [("planning_stopped", 3), ("planning_resumed", 3)]
    assert events(broken)[0].at < events(broken)[1].at


def test_a_change_of_the_policy_is_logged_and_sets_nothing_aside(broken: Settings) -> None:
    run(broken, "r1").update()
    set_policy(broken, stop_after_broken_promises=4)
    run(broken, "r2").update()
    assert names(broken)[1:] == [("planning_resumed", None)]
    assert "after 4 broken promises in a row, and there are 3" in events(broken)[-1].reason
    write_outcomes(broken, [outcome(4, "above")])
    assert run(broken, "r3").update().is_stopped
    assert names(broken)[2:] == [("planning_stopped", 4)]
    set_policy(broken, stop_after_broken_promises=None)
    run(broken, "r4").update()
    assert "never stops planning" in events(broken)[-1].reason
    set_policy(broken)
    run(broken, "r5").update()
    assert [name for name, _ in names(broken)] == [
        "planning_stopped", "planning_resumed", "planning_stopped", "planning_resumed",
        "planning_stopped",
    ]  # fmt: skip


def test_of_runs_at_the_same_time_one_logs_the_change(broken: Settings) -> None:
    runs = [run(broken, f"r{number}") for number in range(8)]
    with ThreadPoolExecutor(len(runs)) as pool:
        assert all(state.is_stopped for state in pool.map(lambda each: each.update(), runs))
    assert names(broken) == [("planning_stopped", 3)]
    with ThreadPoolExecutor(len(runs)) as pool:
        list(pool.map(lambda each: each.resume(ADA), runs))
    assert names(broken) == [("planning_stopped", 3), ("planning_resumed", 3)]
    assert not run(broken, "later").state.is_stopped


def test_a_process_that_has_read_an_old_log_adds_nothing(
    broken: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = run(broken, "slow").state
    run(broken, "r1").update()
    run(broken, "r2").resume(ADA)
    monkeypatch.setattr(planning_events, "read_planning_state", lambda *_: old)
    run(broken, "slow").update()
    monkeypatch.undo()
    assert names(broken) == [("planning_stopped", 3), ("planning_resumed", 3)]
    assert not run(broken, "r3").state.is_stopped


def test_a_person_who_comes_second_is_told_so(
    broken: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(broken, "r1").update()
    old = run(broken, "r3").state
    run(broken, "r2").resume(ADA)
    monkeypatch.setattr(planning_events, "read_planning_state", lambda *_: old)
    with caplog.at_level("INFO"):
        run(broken, "r3").resume(ResumeRequest("bob", "me too"))
    assert events(broken)[-1].actor == "ada"
    assert "as bob says" not in caplog.text
    assert "another run has let planning go on meanwhile" in caplog.text


def test_events_are_in_order_even_if_a_clock_is_behind(
    broken: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AheadClock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime.now(UTC) + timedelta(hours=1)

    monkeypatch.setattr(planning_events, "datetime", AheadClock)
    run(broken, "r1").update()
    monkeypatch.undo()
    run(broken, "r2").resume(ADA)
    assert names(broken) == [("planning_stopped", 3), ("planning_resumed", 3)]
    assert not run(broken, "r2").state.is_logged_as_stopped


def test_an_attempt_repeats_the_notices_of_the_one_that_was_killed(broken: Settings) -> None:
    run(broken, "r1").update(lambda _: "moonlight")
    (notice,) = run(broken, "r1").notices()
    assert notice.kind == "planning_stopped"
    assert notice.text.startswith(f"job {JOB}: the measured load distance of 3 plans in a row")
    assert run(broken, "r2").notices() == []
    run(broken, "r2").resume(ADA)
    assert [each.kind for each in run(broken, "r2").notices()] == ["planning_resumed"]
