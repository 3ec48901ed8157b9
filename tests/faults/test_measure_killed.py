"""``measure`` is killed around the event that planning stopped; its retry logs it once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.task_result import RESULT_FILE_VARIABLE, read_task_result
from ballast.store.planning import read_planning_state
from ballast.store.plans import read_head, read_log
from ballast.store.table_schema import ensure_tables
from spark_jobs.publication.publisher import publish_plan
from tests.support.live_job import windows_that_do_not_fit
from tests.support.outcomes import JOB, outcome, write_outcomes
from tests.support.policies import small_policy, write_policy
from tests.support.programs import KILLED, ROOT, submit
from tests.support.snapshots import uneven, write_draft

POLICY = small_policy(
    JOB, window_s=600, statistics_period_s=3600, thresholds={"stop_after_broken_promises": 2}
)
ARGUMENTS = ("--job", JOB, "--run-id", "run-2")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Version 2 in force with windows that break its promise, after one broken promise."""
    made = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path / "p")})
    made = replace(made, jars=ROOT / ".ballast" / "jars")
    ensure_tables(made)
    write_policy(made.policies, POLICY)
    for version in (1, 2):
        write_draft(made, POLICY, f"first-{version}", placement=uneven(POLICY, extra=version),
                    head=read_head(made, JOB), at=datetime.now(UTC), seconds=0.2,
                    noise_pct=2.0)  # fmt: skip
        publish_plan(made, JOB, f"first-{version}")
    write_outcomes(made, [outcome(1, "above")])
    head = read_head(made, JOB)
    assert head is not None
    windows_that_do_not_fit(made, POLICY, head)
    return made


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fault", "logged"), [("measure.after_outcomes", 0), ("measure.after_planning_event", 1)]
)
def test_a_killed_measure_that_is_retried_stops_planning_once(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, logged: int
) -> None:
    result = tmp_path / "result.json"
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(result))
    killed = submit(settings, "measure", *ARGUMENTS, fault=fault)
    assert killed.returncode == KILLED, killed.stderr[-2000:]
    assert [row.event for row in read_log(settings, JOB)].count("planning_stopped") == logged
    assert read_planning_state(settings, JOB).is_stopped
    assert read_task_result(result) == {}

    retried = submit(settings, "measure", *ARGUMENTS)
    assert retried.returncode == 0, retried.stderr[-2000:]
    (stop,) = [row for row in read_log(settings, JOB) if row.event == "planning_stopped"]
    assert "most likely reason: node node-0 is slower" in stop.reason
    notices = read_task_result(result)["notices"]
    assert [notice["kind"] for notice in notices].count("planning_stopped") == 1
