"""The page's JSON says that a job has stopped planning by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from ballast.contracts.log_events import PLANNING_STOPPED
from ballast.contracts.settings import Settings, load_settings
from ballast.store.cache import TableCache
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from plugins.review.app import build_app
from tests.support.outcomes import JOB, first_outcomes, write_outcomes
from tests.support.policies import small_policy, write_policy
from tests.support.rows import row_of

WHY = {
    "is_stopped": True, "since": "2026-11-16T15:00:00+00:00", "reason": "a slow node",
    "broken_versions": [1, 2, 3],
}  # fmt: skip


class Anybody:
    """Allows every user every job."""

    def login(self, request: Request) -> None:
        """Accept every user."""

    def may_see(self, request: Request, job: str) -> bool:
        return True


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path / "p")})
    ensure_tables(made)
    write_policy(made.policies, small_policy(JOB))
    write_outcomes(made, first_outcomes("above", "above", "above"))
    append(made, "plans.log", [
        row_of("plans.log", job=JOB, event=PLANNING_STOPPED, version=3, reason="a slow node",
               run_id="r3", plan_id="plan-3")
    ])  # fmt: skip
    return made


def test_the_list_the_job_and_a_run_without_a_plan_say_why(settings: Settings) -> None:
    client = TestClient(build_app(TableCache(settings), Anybody()))
    (job,) = client.get("/api/jobs").json()["jobs"]
    assert job["planning"] == WHY
    assert client.get(f"/api/jobs/{JOB}").json()["job"]["planning"] == WHY
    for run in ("r3", "r4"):
        found = client.get(f"/api/jobs/{JOB}/run?run_id={run}").json()
        assert (found["plan_id"], found["planning"]) == (None, WHY)


def test_a_job_that_plans_has_nothing_to_say(settings: Settings) -> None:
    policy = small_policy(JOB, thresholds={"stop_after_broken_promises": 4})
    write_policy(settings.policies, policy)
    client = TestClient(build_app(TableCache(settings), Anybody()))
    planning = client.get(f"/api/jobs/{JOB}").json()["job"]["planning"]
    assert (planning["is_stopped"], planning["since"], planning["reason"]) == (False, None, "")
