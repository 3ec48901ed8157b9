"""The configuration of Airflow, without starting it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embedded.airflow import EmbeddedAirflow, load_secrets, make_secrets, spark_connection
from embedded.errors import EmbeddedError


@pytest.fixture
def stack(tmp_path: Path) -> EmbeddedAirflow:
    made = EmbeddedAirflow(tmp_path / "home", 18099, dags=tmp_path / "dags", env={"EXTRA": "yes"})
    made.home.mkdir()
    make_secrets(made.home)
    return made


def test_everything_listens_on_loopback(stack: EmbeddedAirflow) -> None:
    env = stack.environment()
    assert env["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert env["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:18099"
    assert env["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:18099/execution/"


def test_settings_of_another_airflow_do_not_leak_in(
    stack: EmbeddedAirflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW_CONN_PRODUCTION", "postgres://")
    monkeypatch.setenv("AIRFLOW_CONN_BALLAST_WEBHOOK", "http://hooks.example")
    env = stack.environment()
    assert env["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert "AIRFLOW_CONN_PRODUCTION" not in env
    assert env["AIRFLOW_CONN_BALLAST_WEBHOOK"] == "http://hooks.example"
    assert env["EXTRA"] == "yes"


def test_secrets_are_long_private_and_made_once(stack: EmbeddedAirflow) -> None:
    first = load_secrets(stack.home)
    make_secrets(stack.home)
    assert load_secrets(stack.home) == first
    assert len(first["api_secret"]) >= 64
    assert len(first["jwt_secret"]) >= 64
    assert (stack.home / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_a_broken_secrets_file_is_named_with_what_to_do(stack: EmbeddedAirflow) -> None:
    (stack.home / "secrets.json").write_text("{")
    with pytest.raises(EmbeddedError, match=r"secrets\.json.*remove it"):
        stack.environment()


@pytest.mark.parametrize(
    ("master", "connection"),
    [
        ("local[2]", {"conn_type": "spark", "host": "local[2]"}),
        ("yarn", {"conn_type": "spark", "host": "yarn"}),
        ("spark://m:7078", {"conn_type": "spark", "host": "spark://m", "port": 7078}),
        ("spark://a:1,b:2", {"conn_type": "spark", "host": "spark://a:1,b", "port": 2}),
    ],
)
def test_the_spark_connection_names_the_master(master: str, connection: dict[str, object]) -> None:
    assert json.loads(spark_connection(master)) == connection


def test_stop_without_start_does_nothing(stack: EmbeddedAirflow) -> None:
    stack.stop()
