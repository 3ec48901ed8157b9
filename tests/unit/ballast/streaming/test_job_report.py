"""Each window of a job has one row with the state of the job, measured or not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from ballast.streaming.job_health import HealthLimits, JobHealth, Sample
from ballast.streaming.job_report import JobReporter, PlanInForce

W = 5_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = load_settings({"BALLAST_HOME": str(tmp_path)})
    ensure_tables(made, ["metrics.jobs"])
    return made


def rows(settings: Settings) -> list[tuple[object, ...]]:
    found = read_rows(settings, "metrics.jobs", job="flights").to_pylist()
    found.sort(key=lambda row: row["window_end_at"])
    return [
        (row["state"], row["executors"], row["head_age_s"], row["plan_version"]) for row in found
    ]


def test_every_window_has_one_row_with_state_executors_and_age_of_the_head(
    settings: Settings,
) -> None:
    clock = SimpleNamespace(ms=100 * W)
    health = JobHealth(HealthLimits(30, 180), clock.ms)
    plan = SimpleNamespace(age_s=None)
    reporter = JobReporter(
        settings, "flights", W, health, lambda: PlanInForce(3, plan.age_s), lambda: clock.ms
    )
    health.batch_ended(clock.ms)
    reporter.write()
    reporter.write()
    clock.ms, plan.age_s = 101 * W, 12.5
    health.observe(Sample(clock.ms, 2, waits_for_input=True))
    reporter.write()
    clock.ms = 102 * W
    health.observe(Sample(clock.ms, 0, waits_for_input=False))
    reporter.write()
    assert rows(settings) == [
        ("running", None, None, 3), ("idle", 2, 12.5, 3), ("no_executors", 0, 12.5, 3),
    ]  # fmt: skip


def test_a_table_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away = load_settings({"BALLAST_HOME": str(tmp_path / "away")})
    health = JobHealth(HealthLimits(30, 180), 0)
    reporter = JobReporter(away, "flights", W, health, lambda: PlanInForce(0, None), lambda: W)
    reporter.write()
    assert "the state of job flights could not be written" in caplog.text
