"""The table at the end of `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import run_tests
from tools.run_tests import NO_TESTS, KindResult, counts_of, spread

REPORT = """<testsuites>
  <testsuite tests="7" failures="1" errors="1" skipped="2"/>
</testsuites>"""


def test_counts_are_read_from_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert counts_of(report) == {"passed": 3, "failed": 2, "skipped": 2}


def test_a_run_that_wrote_no_report_counts_nothing(tmp_path: Path) -> None:
    assert counts_of(tmp_path / "none.xml") == {"passed": 0, "failed": 0, "skipped": 0}


def test_neither_a_crash_nor_a_kind_without_tests_is_good() -> None:
    assert not KindResult("unit", -11, 1.0).is_good
    assert not KindResult("dags", NO_TESTS, 0.0).is_good


def test_every_kind_runs_although_one_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_folder(name: str, _folder: Path) -> KindResult:
        ran.append(name)
        return KindResult(name, 1 if name == "unit" else 0, 1.5, passed=4)

    monkeypatch.setattr(run_tests, "run_folder", run_folder)
    assert run_tests.main(["unit", "spark"]) == 1
    assert ran == ["unit", "spark"]
    assert "FAILED" in capsys.readouterr().out


def test_pure_tests_use_all_cores_and_those_that_share_a_session_one() -> None:
    assert spread("unit", 4)[:2] == ["-n", "4"]
    assert spread("faults", 64)[:2] == ["-n", "2"]
    assert spread("unit", 1) == spread("unit", None) == spread("spark", 64) == []


def test_an_unknown_kind_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_tests.main(["unti"]) == 2
    assert "unit spark dags e2e faults" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["tests", "tests/unit/none", "solvers", "tests/../solvers", "/tmp"]
)
def test_what_is_no_folder_of_tests_is_refused(name: str) -> None:
    assert run_tests.main([name]) == 2


def test_one_folder_runs_alone_and_is_named_in_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    class FinishedProcess:
        returncode = 0

    def run(command: list[str], **_: object) -> FinishedProcess:
        commands.append(command)
        return FinishedProcess()

    monkeypatch.setattr(run_tests.subprocess, "run", run)
    assert run_tests.main(["tests/unit/tools"]) == 0
    (command,) = commands
    assert str(run_tests.ROOT / "tests" / "unit" / "tools") in command
    assert "tests/unit/tools" in capsys.readouterr().out.splitlines()[-1]
