"""A job that has stopped planning by itself is shown as such until it goes on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ballast.contracts.log_events import DRAFTED, PLANNING_RESUMED, PLANNING_STOPPED
from ballast.contracts.settings import Settings, load_settings
from ballast.readmodel.job_history import JobHistory, plan_of_run
from ballast.readmodel.plans import job_summary
from ballast.store.cache import TableCache
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from tests.support.outcomes import FIRST, JOB, first_outcomes, outcome, write_outcomes
from tests.support.policies import small_policy, write_policy
from tests.support.rows import row_of


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path / "p")})
    ensure_tables(made, ["plans.log", "plans.outcomes"])
    write_policy(made.policies, small_policy(JOB))
    return made


def log(settings: Settings, event: str, version: int | None, hour: int, run: str = "r") -> None:
    row = row_of(
        "plans.log", job=JOB, event=event, version=version, run_id=run, reason="a slow node",
        plan_id=f"plan-{version}", at=FIRST + timedelta(hours=hour),
    )  # fmt: skip
    append(settings, "plans.log", [row])


def history(settings: Settings) -> JobHistory:
    return JobHistory(TableCache(settings), JOB)


def test_a_stopped_job_says_so_with_the_reason_of_the_log(settings: Settings) -> None:
    write_outcomes(settings, first_outcomes("above", "above", "below"))
    found = job_summary(history(settings)).planning
    assert found.is_stopped
    assert "3 plans in a row" in found.reason
    log(settings, PLANNING_STOPPED, 3, 4)
    summary = job_summary(history(settings))
    assert summary.planning.reason == "a slow node"
    assert summary.last_trouble is not None
    assert summary.last_trouble.entry.event == PLANNING_STOPPED


def test_the_trouble_is_over_when_planning_goes_on_and_not_by_a_plan(settings: Settings) -> None:
    write_outcomes(settings, first_outcomes("above", "above", "below"))
    log(settings, PLANNING_STOPPED, 3, 4)
    log(settings, DRAFTED, None, 5)
    trouble = job_summary(history(settings)).last_trouble
    assert trouble is not None
    assert trouble.over_since is None
    log(settings, PLANNING_RESUMED, 3, 6)
    summary = job_summary(history(settings))
    assert not summary.planning.is_stopped
    assert summary.last_trouble is not None
    assert summary.last_trouble.over_since == FIRST + timedelta(hours=6)


def test_broken_promises_that_stop_nothing_yet_are_counted(settings: Settings) -> None:
    write_outcomes(settings, first_outcomes("inside", "above", "above"))
    found = job_summary(history(settings)).planning
    assert (found.is_stopped, found.versions, found.stop_after) == (False, (2, 3), 3)


def test_the_policy_of_today_counts(settings: Settings) -> None:
    write_outcomes(settings, first_outcomes("above", "above"))
    assert not history(settings).planning.is_stopped
    policy = small_policy(JOB, thresholds={"stop_after_broken_promises": 2})
    write_policy(settings.policies, policy)
    assert history(settings).planning.is_stopped


def test_no_policy_is_read_where_every_promise_is_kept(settings: Settings) -> None:
    write_outcomes(settings, [*first_outcomes("inside", None), outcome(2, None, 5)])
    assert history(settings).planning.stop_after is None


def test_the_plan_that_a_stop_names_is_not_the_plan_of_the_run(settings: Settings) -> None:
    log(settings, PLANNING_STOPPED, 3, 4, run="r4")
    log(settings, PLANNING_RESUMED, 3, 5, run="r5")
    assert plan_of_run(history(settings), "r4") is None
    assert plan_of_run(history(settings), "r5") is None
