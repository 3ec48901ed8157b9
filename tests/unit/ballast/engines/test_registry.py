"""Only jobs of engines that run beside their jobs have a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.cli.main import main
from ballast.contracts.errors import InvalidInput
from ballast.contracts.settings import load_settings
from ballast.engines.registry import open_session
from tests.support.policies import small_policy, write_policy


def test_a_job_of_the_spark_library_has_nothing_to_run_beside_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"engine 'spark'.*allowed: kafka"):
        open_session(load_settings({"BALLAST_HOME": str(tmp_path)}), small_policy())


def test_the_command_says_so_with_the_exit_code_of_wrong_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_policy(tmp_path, small_policy())
    monkeypatch.setenv("BALLAST_POLICIES", str(tmp_path))
    assert main(["engine", "run", "probe"]) == 2
    assert "there is nothing to run beside it" in capsys.readouterr().err


def test_without_an_address_of_the_broker_the_command_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = small_policy(operators={"count": 4}, edges=[], engine={"kind": "kafka", "group": "g"})
    write_policy(tmp_path, policy)
    monkeypatch.setenv("BALLAST_POLICIES", str(tmp_path))
    monkeypatch.setenv("BALLAST_HOME", str(tmp_path))
    monkeypatch.delenv("BALLAST_KAFKA_SETTINGS", raising=False)
    monkeypatch.delenv("BALLAST_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert main(["engine", "run", "probe"]) == 2
    assert "BALLAST_KAFKA_BOOTSTRAP_SERVERS" in capsys.readouterr().err
