"""Gauges of jobs: their values from the tables, the text of Prometheus and the dashboard."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.readmodel.gauges import GAUGES, GaugeValue, job_gauges, prometheus_text
from ballast.readmodel.job_history import JobHistory
from ballast.store.cache import TableCache
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from tests.support.rows import row_of

ROOT = Path(__file__).resolve().parents[4]
NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
JOB = "clicks"
LINE = re.compile(r'(ballast_\w+)\{job="(\w+)"\} (-?[0-9.e+-]+)')


@pytest.fixture
def tables(tmp_path: Path) -> Settings:
    made = load_settings({"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path)})
    ensure_tables(made)
    return made


def publish(settings: Settings) -> None:
    """Version 2, published 100 s ago."""
    at = NOW - timedelta(seconds=100)
    append(settings, "plans.plans", [row_of(
        "plans.plans", job=JOB, plan_id="p2", load_distance_before_pct=40.0, load_distance_pct=2.0,
        moves=3, bytes=1000, pause_s=0.5, budget_moves=None, budget_bytes=None,
        created_at=at)])  # fmt: skip
    append(settings, "plans.heads", [row_of(
        "plans.heads", job=JOB, version=2, plan_id="p2", published_at=at)])  # fmt: skip
    append(settings, "plans.log", [row_of(
        "plans.log", job=JOB, plan_id="p2", version=2, event="published", at=at)])  # fmt: skip
    append(settings, "plans.promises", [row_of(
        "plans.promises", job=JOB, plan_id="p2", figure="load_distance_pct", unit="% of mean",
        expected=2.0, low=0.9, high=3.4, lowest=0.2, highest=5.0, reason="")])  # fmt: skip


def answer(settings: Settings, status: str, seconds_ago: int) -> None:
    append(settings, "plans.acks", [row_of(
        "plans.acks", job=JOB, version=2, plan_id="p2", status=status, pause_ms=250.0,
        acked_at=NOW - timedelta(seconds=seconds_ago))])  # fmt: skip


def measured(settings: Settings) -> dict[str, float]:
    values = job_gauges(JobHistory(TableCache(settings), JOB), NOW)
    return {each.gauge.name.removeprefix("ballast_"): each.value for each in values}


def test_before_the_first_plan_there_are_gauges_of_the_job_alone(tables: Settings) -> None:
    zero = ("plan_version", "refusals", "planning_stopped", "plan_waiting")
    assert measured(tables) == dict.fromkeys(zero, 0.0) | {"gate_open": 1.0}


def test_a_plan_in_force_has_its_promise_and_its_costs(tables: Settings) -> None:
    publish(tables)
    found = measured(tables)
    assert (found["plan_version"], found["plan_age_seconds"]) == (2, 100)
    assert found["load_distance_before_percent"] == 40.0
    assert (found["load_distance_promised_low_percent"],
            found["load_distance_promised_percent"],
            found["load_distance_promised_high_percent"]) == (0.9, 2.0, 3.4)  # fmt: skip
    assert (found["plan_moves"], found["plan_moved_bytes"]) == (3, 1000)
    assert "load_distance_measured_percent" not in found
    append(tables, "plans.outcomes", [row_of(
        "plans.outcomes", job=JOB, version=2, plan_id="p2", figure="load_distance_pct",
        unit="% of mean", promised=2.0, measured=2.5)])  # fmt: skip
    assert measured(tables)["load_distance_measured_percent"] == 2.5


def test_the_lag_of_a_take_up_grows_until_the_job_has_applied_the_plan(tables: Settings) -> None:
    publish(tables)
    answer(tables, "accepted", 90)
    pending = measured(tables)
    assert (pending["take_up_pending"], pending["take_up_lag_seconds"]) == (1, 100)
    assert "plan_pause_measured_seconds" not in pending
    answer(tables, "applied", 70)
    applied = measured(tables)
    assert (applied["take_up_pending"], applied["take_up_lag_seconds"]) == (0, 30)
    assert applied["plan_pause_measured_seconds"] == 0.25


def test_the_gate_is_closed_while_the_newest_run_failed_at_it(tables: Settings) -> None:
    publish(tables)
    failed = row_of("plans.log", job=JOB, event="gate_failed", run_id="r3", plan_id=None,
                    version=None, at=NOW - timedelta(seconds=50))  # fmt: skip
    append(tables, "plans.log", [failed])
    assert measured(tables)["gate_open"] == 0
    later = failed | {"event": "drafted", "run_id": "r4", "at": NOW}
    append(tables, "plans.log", [later])
    assert measured(tables)["gate_open"] == 1


def test_the_text_has_help_and_type_once_and_a_line_for_each_job(tables: Settings) -> None:
    publish(tables)
    values = job_gauges(JobHistory(TableCache(tables), JOB), NOW)
    others = [GaugeValue(each.gauge, "orders", each.value) for each in values]
    text = prometheus_text([*values, *others])
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines)
    assert len(lines) == 2 * len(values)
    assert text.count("# TYPE ballast_plan_version gauge\n") == 1
    assert text.endswith("\n")
    assert prometheus_text([]) == ""


def test_the_dashboard_shows_every_gauge_and_no_other() -> None:
    board = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    shown = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"ballast_\w+", target["expr"])
    }
    assert shown == {gauge.name for gauge in GAUGES}


def test_the_page_of_gauges_explains_every_gauge() -> None:
    page = (ROOT / "docs" / "gauges.md").read_text(encoding="utf-8")
    assert [g.name for g in GAUGES if f"| `{g.name}` | {g.help} |" not in page] == []
