"""Outcomes are read for a version and for figures by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ballast.contracts.records import Outcome
from ballast.contracts.settings import load_settings
from ballast.store.plans import read_outcomes
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from tests.support.rows import row_of

JOB = "probe"
START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def test_only_the_wanted_outcomes_are_returned_oldest_first(tmp_path: Path) -> None:
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    assert read_outcomes(settings, JOB, figures=["moves"]) == []
    ensure_tables(settings, [Outcome.table])
    rows = [
        row_of(
            Outcome.table, job=JOB, version=version, figure=figure, run_id=f"run-{version}",
            measured_at=START - timedelta(minutes=version),
        )
        for version in (1, 2)
        for figure in ("moves", "load_distance_pct", "cpu_load_cores/a")
    ]  # fmt: skip
    append(settings, Outcome.table, rows)
    found = read_outcomes(settings, JOB, figures=["moves", "load_distance_pct"])
    assert [(row.version, row.figure) for row in found] == [
        (2, "load_distance_pct"), (2, "moves"), (1, "load_distance_pct"), (1, "moves"),
    ]  # fmt: skip
    assert len(read_outcomes(settings, JOB, 1)) == 3
    assert [row.version for row in read_outcomes(settings, JOB, 2, ["moves"])] == [2]
