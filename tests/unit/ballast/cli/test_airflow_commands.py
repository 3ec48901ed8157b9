"""``ballast trigger``, ``approve`` and ``rollback`` against an HTTP server with a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ballast.cli.approve import unsettled_s
from ballast.cli.main import main
from ballast.contracts.settings import load_settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from tests.support.http_script import Script, serving
from tests.support.rows import row_of

READY = [(200, {"is_paused": False})]
STARTED = [(200, {"dag_run_id": "r1"})]
QUESTIONS = "GET /api/v2/dags/review__clicks/dagRuns/~/hitlDetails?response_received=false"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Script]:
    """An Airflow with the three DAGs of job clicks, and a user with a token."""
    with serving() as server:
        for name in ("reoptimize", "review", "rollback"):
            server.answers[f"GET /api/v2/dags/{name}__clicks"] = READY
            server.answers[f"POST /api/v2/dags/{name}__clicks/dagRuns"] = STARTED
        for name in ("USER", "PASSWORD"):
            monkeypatch.delenv(f"BALLAST_AIRFLOW_{name}", raising=False)
        monkeypatch.setenv("BALLAST_AIRFLOW_URL", server.url)
        monkeypatch.setenv("BALLAST_AIRFLOW_TOKEN", "mine")
        monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
        monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
        yield server


def asks(script: Script, *plans: str, state: str = "awaiting_input", task: str = "approve") -> None:
    """Add a waiting review for each plan."""
    details = [
        {
            "subject": f"Plan {plan}", "body": "moves 3 key groups", "params": {"reason": {}},
            "created_at": f"2026-01-0{number}T00:00:00Z",
            "task_instance": {"task_id": task, "dag_run_id": f"run-{plan}", "state": state},
        }
        for number, plan in enumerate(plans, start=1)
    ]  # fmt: skip
    script.answers[QUESTIONS] = [(200, {"hitl_details": details})]
    for plan in plans:
        run = f"/api/v2/dags/review__clicks/dagRuns/run-{plan}"
        script.answers[f"GET {run}"] = [(200, {"conf": {"plan_id": plan}, "state": "success"})]
        script.answers[f"PATCH {run}/taskInstances/approve/-1/hitlDetails"] = [(200, {})]


def test_a_run_is_triggered_with_the_params_that_were_named(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--dry-run", "--budget-moves", "20", "--budget-bytes", "none"]
    arguments += ["--method", "flux", "--json"]
    assert main(["trigger", "clicks", *arguments]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["dag_id"], printed["run_id"], printed["state"]) == (
        "reoptimize__clicks",
        "r1",
        None,
    )
    assert script.seen[-1] == (
        "POST /api/v2/dags/reoptimize__clicks/dagRuns", "Bearer mine",
        {"logical_date": None,
         "conf": {"dry_run": True, "method": "flux", "budget_moves": 20, "budget_bytes": None}},
    )  # fmt: skip


def test_a_rollback_carries_version_reason_and_what_to_do_with_dead_nodes(script: Script) -> None:
    assert main(["rollback", "clicks", "3", "--reason", "too slow", "--force-nodes"]) == 0
    assert script.seen[-1][2]["conf"] == {"version": 3, "reason": "too slow", "force_nodes": True}


@pytest.mark.parametrize(("version", "said"), [("2", "is in force"), ("9", "does not exist")])
def test_a_version_that_the_warehouse_does_not_have_is_refused_before_anything_is_started(
    script: Script, capsys: pytest.CaptureFixture[str], version: str, said: str
) -> None:
    settings = load_settings()
    ensure_tables(settings, ["plans.log", "plans.heads"])
    append(settings, "plans.log", [
        row_of("plans.log", job="clicks", event="published", version=v, plan_id=f"p{v}")
        for v in (1, 2)
    ])  # fmt: skip
    assert main(["rollback", "clicks", version, "--reason", "x"]) == 2
    assert f"version {version} of job clicks {said}; allowed: 1 to 1" in capsys.readouterr().err
    assert script.seen == []
    assert main(["rollback", "clicks", "1", "--reason", "x"]) == 0


@pytest.mark.parametrize(
    ("arguments", "option"), [([], "Approve"), (["--reject", "--reason", "no"], "Reject")]
)
def test_the_only_plan_that_waits_is_answered(
    script: Script, capsys: pytest.CaptureFixture[str], arguments: list[str], option: str
) -> None:
    asks(script, "p1")
    assert main(["approve", "clicks", *arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["plan_id"], printed["answer"], printed["run_id"]) == ("p1", option, "run-p1")
    params = {"reason": "no"} if arguments else {}
    assert script.seen[-1][2] == {"chosen_options": [option], "params_input": params}


def test_of_several_plans_the_named_one_is_answered_and_none_without_a_name(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    asks(script, "p1", "p2")
    assert main(["approve", "clicks"]) == 2
    assert "name one of p1, p2" in capsys.readouterr().err
    assert main(["approve", "clicks", "p2"]) == 0
    assert "run-p2" in script.requests[-1]


def test_what_waits_can_be_read_without_answering(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    asks(script, "p1")
    assert main(["approve", "clicks", "--show"]) == 0
    assert "moves 3 key groups" in capsys.readouterr().out
    assert not [request for request in script.requests if request.startswith("PATCH")]


@pytest.mark.parametrize("given", [{"state": "failed"}, {"state": "running"}, {"task": "other"}])
def test_a_question_that_ended_or_does_not_wait_yet_or_is_another_one_does_not_count(
    script: Script, capsys: pytest.CaptureFixture[str], given: dict[str, str]
) -> None:
    asks(script, "p1", **given)
    assert main(["approve", "clicks"]) == 24
    assert "no plan of job clicks waits" in capsys.readouterr().err


def test_waiting_for_a_run_that_fails_says_which_task_and_why(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    run = "/api/v2/dags/reoptimize__clicks/dagRuns/r1"
    task = {"task_id": "condense", "map_index": -1, "state": "failed", "try_number": 2,
            "start_date": None, "end_date": None}  # fmt: skip
    script.answers[f"GET {run}"] = [(200, {"state": "failed"})]
    script.answers[f"GET {run}/taskInstances?limit=1000"] = [(200, {"task_instances": [task]})]
    log = f"GET {run}/taskInstances/condense/logs/2?map_index=-1&full_content=true"
    script.answers[log] = [(200, {"content": [{"event": "GateFailed: node-1 is silent"}]})]
    assert main(["trigger", "clicks", "--wait"]) == 25
    assert "task condense; end of its log:\nGateFailed: node-1" in capsys.readouterr().err


def refuse(request: str, status: int, detail: str = "no") -> Any:
    return lambda script: script.answers.update({request: [(status, {"detail": detail})]})


DAG = "GET /api/v2/dags/reoptimize__clicks"
RUNS = "POST /api/v2/dags/reoptimize__clicks/dagRuns"


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (refuse(DAG, 401), 21, "does not accept the token, or it has expired; to fix it"),
        (refuse(DAG, 403, "Invalid JWT token"), 21, "does not accept the token"),
        (refuse(RUNS, 403, "Forbidden"), 22, "may not: Forbidden; to fix it: ask who runs"),
        (refuse(DAG, 404), 23, "has no DAG reoptimize__clicks; to fix it: check the job's name"),
        (lambda s: s.answers.update({DAG: [(200, {"is_paused": True})]}), 23, "switch it on at"),
        (refuse(RUNS, 400, "budget_moves: -1 is too small"), 2, "refuses it: budget_moves: -1"),
        (refuse(RUNS, 500, "boom"), 1, "500 Internal Server Error: boom"),
    ],
)
def test_each_refusal_has_its_code_and_says_what_to_do(
    script: Script, capsys: pytest.CaptureFixture[str], change: Any, code: int, said: str
) -> None:
    change(script)
    assert main(["trigger", "clicks"]) == code
    assert said in capsys.readouterr().err


def test_an_answer_that_came_too_late_says_so(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    asks(script, "p1")
    path = "PATCH /api/v2/dags/review__clicks/dagRuns/run-p1/taskInstances/approve/-1/hitlDetails"
    refuse(path, 409, "already responded")(script)
    assert main(["approve", "clicks"]) == 24
    assert "has been answered: already responded" in capsys.readouterr().err


def test_an_unreachable_server_is_reported_with_the_command_that_starts_it(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trigger", "clicks", "--url", "http://127.0.0.1:9"]) == 20
    assert "start Airflow (`make run`), or set BALLAST_AIRFLOW_URL" in capsys.readouterr().err
    assert script.seen == []


def test_a_user_logs_in_by_password_and_a_wrong_one_is_an_error(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BALLAST_AIRFLOW_PASSWORD", "secret")
    assert main(["trigger", "clicks", "--user", "ann"]) == 0
    assert script.seen[0][2] == {"username": "ann", "password": "secret"}
    script.answers["POST /auth/token"] = [(401, {"detail": "Invalid credentials"})]
    assert main(["trigger", "clicks", "--user", "ann"]) == 21
    error = capsys.readouterr().err
    assert "does not accept user ann or the password; to fix it: check both" in error
    assert "secret" not in error


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trigger", "../x"], "is not a job name"),
        (["trigger", "clicks", "--budget-moves", "many"], "--budget-moves 'many'"),
        (["trigger", "clicks", "--solver-seconds", "none"], "--solver-seconds 'none'"),
        (["rollback", "clicks", "1", "--reason", " "], "--reason is empty"),
        (["rollback", "clicks", "0", "--reason", "x"], "does not exist"),
        (["trigger", "clicks", "--url", "ftp://x"], "is not the address of an Airflow"),
        (["trigger", "clicks", "--user", "ann"], "this is no terminal"),
    ],
)
def test_what_cannot_be_asked_for_ends_with_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("script")
def test_a_missing_login_is_an_error_that_names_the_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BALLAST_AIRFLOW_TOKEN")
    assert main(["approve", "clicks"]) == 2
    assert "needs a login; to fix it: set BALLAST_AIRFLOW_TOKEN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked_at", "left"),
    [
        ("2026-01-01T00:00:00Z", 0.0),
        ("2026-01-01T00:59:57Z", 9.0),
        ("2026-01-01T01:00:00+00:00", 12.0),
        ("2026-01-01T03:00:00Z", 12.0),
    ],
)
def test_a_question_is_left_alone_until_the_scheduler_knows_that_it_waits(asked_at, left):
    assert unsettled_s(asked_at, datetime(2026, 1, 1, 1, tzinfo=UTC)) == left
