"""The program: arguments, exit codes and one clear line; none of these tests starts a JVM."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ballast.contracts.settings import Settings
from ballast.store.plans import read_log
from spark_jobs.condense import main
from spark_jobs.program.arguments import parse_time
from tests.support.policies import small_policy, write_policy


def arguments(settings: Settings, **changed: str) -> list[str]:
    given = {
        "job": "probe",
        "run-id": "run-1",
        "warehouse": settings.warehouse,
        "policies": str(settings.policies),
        **changed,
    }
    return [text for name, value in given.items() for text in (f"--{name}", value)]


def test_a_failed_gate_is_one_line_and_its_exit_code(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    write_policy(settings.policies, small_policy())
    assert main(arguments(settings)) == 4
    error = capsys.readouterr().err.strip()
    assert error.startswith("condense: GateFailed: job probe has no metrics")
    assert "\n" not in error
    assert len(read_log(settings, "probe")) == 1


def test_a_job_without_policy_is_bad_input(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(settings)) == 2
    assert "probe.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changed",
    [{"job": "Probe"}, {"job": "probe\n"}, {"job": "../probe"}, {"run-id": " "},
     {"run-id": "two\nlines"}, {"as-of": "yesterday"}],
)  # fmt: skip
def test_bad_arguments_are_refused(settings: Settings, changed: dict[str, str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments(settings, **changed))
    assert ended.value.code == 2


def test_times_without_a_zone_are_utc() -> None:
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    for text in ("2026-11-16T12:00:00", "2026-11-16T12:00:00Z", "2026-11-16T13:00:00+01:00"):
        assert parse_time(text) == noon
