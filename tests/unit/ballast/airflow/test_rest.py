"""The REST client against a server that answers from a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ballast.airflow.errors import ApiError, LoginRefused, NoAnswer, WaitedTooLong
from ballast.airflow.rest import AirflowClient, wait_until
from tests.support.http_script import Script, serving


@pytest.fixture
def script() -> Iterator[Script]:
    with serving() as server:
        yield server


@pytest.fixture
def client(script: Script) -> AirflowClient:
    return AirflowClient(script.url, "admin", "secret")


def test_it_logs_in_once_and_sends_the_token(script: Script, client: AirflowClient) -> None:
    script.answers["GET /api/v2/dags/d"] = [(200, {"is_paused": True})]
    assert client.is_paused("d")
    assert client.is_paused("d")
    requests = [request for request, _, _ in script.seen]
    assert requests == ["POST /auth/token", "GET /api/v2/dags/d", "GET /api/v2/dags/d"]
    assert script.seen[1][1] == "Bearer t1"


def test_an_expired_token_is_renewed(script: Script, client: AirflowClient) -> None:
    script.answers["GET /api/v2/dags/d"] = [(401, {}), (200, {"is_paused": False})]
    assert not client.is_paused("d")
    assert script.seen[-1][1] == "Bearer t2"


def test_a_run_is_triggered_with_its_conf(script: Script, client: AirflowClient) -> None:
    script.answers["POST /api/v2/dags/d/dagRuns"] = [(200, {"dag_run_id": "r"})]
    assert client.trigger("d", conf={"a": 1}, run_id="r") == "r"
    assert script.seen[-1][2] == {"logical_date": None, "conf": {"a": 1}, "dag_run_id": "r"}


def test_names_cannot_escape_their_place_in_the_path(script: Script, client: AirflowClient) -> None:
    assert client.dag("../users?x=1") is None
    assert script.seen[-1][0] == "GET /api/v2/dags/..%2Fusers%3Fx%3D1"


def test_waiting_for_a_dag_tells_an_import_error_at_once(
    script: Script, client: AirflowClient
) -> None:
    error = {"filename": "broken.py", "stack_trace": "SyntaxError: no"}
    script.answers["GET /api/v2/importErrors?limit=100"] = [(200, {"import_errors": [error]})]
    with pytest.raises(ApiError, match=r"broken\.py(.|\n)*SyntaxError"):
        client.wait_for_dag("d", timeout_s=30)


def test_a_run_is_waited_for_until_it_has_ended(script: Script, client: AirflowClient) -> None:
    states = [(200, {"state": "running"}), (200, {"state": "failed"})]
    script.answers["GET /api/v2/dags/d/dagRuns/r"] = states
    polls: list[int] = []
    assert client.wait_for_run("d", "r", 10, on_poll=lambda: polls.append(1)) == "failed"
    assert polls == [1]


def test_tasks_come_in_the_order_they_started(script: Script, client: AirflowClient) -> None:
    def task(name: str, start: str | None, end: str | None) -> dict[str, Any]:
        times = {"start_date": start, "end_date": end}
        return {"task_id": name, "map_index": -1, "state": None, "try_number": 1, **times}

    tasks = [
        task("waiting", None, None),
        task("late", "2026-01-01T00:00:09Z", None),
        task("early", "2026-01-01T00:00:01Z", "2026-01-01T00:00:03.500000Z"),
    ]
    path = "GET /api/v2/dags/d/dagRuns/r/taskInstances?limit=1000"
    script.answers[path] = [(200, {"task_instances": tasks})]
    runs = client.task_runs("d", "r")
    assert [run.task_id for run in runs] == ["early", "late", "waiting"]
    assert [run.seconds for run in runs] == [2.5, None, None]


def test_no_server_is_an_error_that_names_the_address() -> None:
    with pytest.raises(ApiError, match=r"http://127\.0\.0\.1:9/.*no answer"):
        AirflowClient("http://127.0.0.1:9", "admin", "x").health()


def test_a_token_is_used_as_it_is_and_never_renewed(script: Script) -> None:
    script.answers["GET /api/v2/dags/d"] = [(200, {"is_paused": True}), (401, {})]
    client = AirflowClient(script.url, token="mine")
    assert client.is_paused("d")
    assert script.seen[-1][1] == "Bearer mine"
    with pytest.raises(LoginRefused, match="does not accept the token"):
        client.is_paused("d")
    assert "POST /auth/token" not in script.requests


def test_a_redirect_is_not_followed_with_the_token(script: Script, client: AirflowClient) -> None:
    script.answers["GET /api/v2/dags/d"] = [(302, f"{script.url}/elsewhere")]
    with pytest.raises(ApiError, match=r"redirects to .*/elsewhere, which is not followed"):
        client.is_paused("d")
    assert script.requests[-1] == "GET /api/v2/dags/d"


def test_a_page_that_is_no_json_is_not_taken_for_airflow(
    script: Script, client: AirflowClient
) -> None:
    script.answers["GET /api/v2/dags/d"] = [(200, "<html>")]
    with pytest.raises(NoAnswer, match="is not Airflow's API"):
        client.is_paused("d")


def test_an_address_that_is_not_http_is_refused() -> None:
    with pytest.raises(ApiError, match="not an address"):
        AirflowClient("file:///etc/passwd", "admin", "x")


def test_waiting_in_vain_says_for_what_and_how_long() -> None:
    with pytest.raises(WaitedTooLong, match="rain did not come within 0 s"):
        wait_until(lambda: None, "rain did not come", 0.01)
