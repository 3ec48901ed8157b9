"""``ballast status`` says that planning is stopped, and ``ballast resume`` starts it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast.cli.main import main
from ballast.contracts.log_events import PLANNING_STOPPED
from ballast.contracts.settings import Settings, load_settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from tests.support.http_script import Script, serving
from tests.support.outcomes import first_outcomes, write_outcomes
from tests.support.policies import small_policy, write_policy
from tests.support.rows import row_of

RUNS = "POST /api/v2/dags/reoptimize__clicks/dagRuns"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Script]:
    """An Airflow with the DAG of job clicks, and a user with a token."""
    with serving() as server:
        server.answers["GET /api/v2/dags/reoptimize__clicks"] = [(200, {"is_paused": False})]
        server.answers[RUNS] = [(200, {"dag_run_id": "r1"})]
        for name in ("USER", "PASSWORD"):
            monkeypatch.delenv(f"BALLAST_AIRFLOW_{name}", raising=False)
        monkeypatch.setenv("BALLAST_AIRFLOW_URL", server.url)
        monkeypatch.setenv("BALLAST_AIRFLOW_TOKEN", "mine")
        monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
        monkeypatch.setenv("BALLAST_POLICIES", str(tmp_path / "policies"))
        monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
        yield server


@pytest.fixture
def stopped(script: Script) -> Settings:
    """A warehouse in which job clicks has stopped planning."""
    settings = load_settings()
    ensure_tables(settings)
    write_policy(settings.policies, small_policy("clicks"))
    write_outcomes(settings, first_outcomes("above", "above", "above"), "clicks")
    append(settings, "plans.log", [
        row_of("plans.log", job="clicks", event=PLANNING_STOPPED, version=3, reason="a slow node")
    ])  # fmt: skip
    return settings


@pytest.mark.usefixtures("stopped")
def test_status_says_since_when_planning_is_stopped_and_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["status", "clicks", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["planning"], status["planning_reason"]) == ("stopped", "a slow node")
    assert status["planning_stopped_since"].startswith("2026-11-16T15:00:00")
    assert status["broken_promises_in_a_row"] == 3
    assert main(["status", "clicks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "stopped" in next(line for line in lines if line.startswith("planning "))


def test_status_says_that_a_job_plans(
    stopped: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = small_policy("clicks", thresholds={"stop_after_broken_promises": None})
    write_policy(stopped.policies, policy)
    assert main(["status", "clicks", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["planning"], status["planning_reason"]) == ("on", None)
    assert (status["planning_stopped_since"], status["broken_promises_in_a_row"]) == (None, 3)


@pytest.mark.usefixtures("stopped")
def test_planning_is_resumed_by_a_run_with_the_reason(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", "clicks", "--reason", " it is repaired "]) == 0
    assert "resuming planning: run r1 of reoptimize__clicks" in capsys.readouterr().out
    request, token, body = script.seen[-1]
    assert (request, token) == (RUNS, "Bearer mine")
    assert body == {"logical_date": None, "conf": {"resume": "it is repaired"}}


def test_a_job_that_plans_is_not_resumed(
    stopped: Settings, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = small_policy("clicks", thresholds={"stop_after_broken_promises": 4})
    write_policy(stopped.policies, policy)
    assert main(["resume", "clicks", "--reason", "x"]) == 2
    error = capsys.readouterr().err
    assert "planning of job clicks is not stopped" in error
    assert "`ballast trigger clicks`" in error
    assert script.seen == []


def test_without_the_warehouse_the_run_finds_out(script: Script) -> None:
    assert main(["resume", "clicks", "--reason", "it is repaired"]) == 0
    assert script.seen[-1][0] == RUNS


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["clicks", "--reason", " "], "--reason is empty"), (["../x", "--reason", "x"], "job name")],
)
def test_what_cannot_be_resumed_starts_nothing(
    script: Script, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["resume", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert script.seen == []


@pytest.mark.usefixtures("stopped")
def test_a_person_without_the_right_gets_an_error(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script.answers[RUNS] = [(403, {"detail": "Forbidden"})]
    assert main(["resume", "clicks", "--reason", "x"]) == 22
    assert "cannot resume planning of job clicks" in capsys.readouterr().err
