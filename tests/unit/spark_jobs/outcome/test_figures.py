"""Every measured figure is an outcome with its promise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from ballast.contracts.records import Ack, Draft, Outcome
from spark_jobs.draft.wire_traffic import serialise_us
from spark_jobs.outcome.figures import MeasuredFigures, load_index_per_record, plan_figures
from spark_jobs.outcome.outcomes import (
    MeasuredPeriod,
    Measurement,
    broken_promise,
    outcomes_of,
    report,
)
from tests.support.rows import row_of

START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture
def rows():
    plan = {
        "job": "probe", "plan_id": "p", "load_distance_before_pct": 30.0, "load_distance_pct": 2.0,
        "load_distance_before_points": 12.0, "load_distance_points": 1.0, "moves": 3, "bytes": 100,
        "forced_moves": 1, "forced_bytes": 50, "pause_s": 0.5, "collocation_factor_pct": None,
        "collocation_factor_before_pct": None, "load_index_pct": 90.0,
        "wire_bytes_before_per_s": 500.0, "wire_bytes_per_s": 300.0, "serialise_us": None,
        "route_bytes": 20, "route_pause_s": None,
    }  # fmt: skip
    ack = {"version": 4, "moved_key_groups": 4, "bytes_moved": 170, "pause_ms": 700.0}
    measured = MeasuredFigures(3.5, 1.5, None, 92.0, 310.0, 1.5, 100.0, 50.0)
    figures = plan_figures(
        Draft.from_row(row_of(Draft.table, **plan)),
        Ack.from_row(row_of(Ack.table, **ack)),
        measured,
    )
    ends = [START + timedelta(seconds=5), START + timedelta(seconds=10)]
    period = MeasuredPeriod.of_windows(ends, 5.0)
    return outcomes_of(Measurement("probe", 4, "p", "run-2", START), period, figures)


def test_forced_moves_are_part_of_what_was_promised(rows):
    found = {row.figure: (row.promised, row.measured, row.unit) for row in rows}
    assert found["moves"] == (4, 4.0, "key groups")
    assert found["bytes"] == (170, 170.0, "bytes")
    assert found["pause_s"] == (0.5, 0.7, "s")


def test_bytes_and_load_index_are_measured_beside_their_promise(rows):
    found = {row.figure: (row.before, row.promised, row.measured) for row in rows}
    assert found["wire_bytes_per_s"] == (500.0, 300.0, 310.0)
    assert found["wire_bytes_per_record"] == (5.0, 3.0, 6.2)
    assert found["load_index_pct"] == (100.0, 90.0, 92.0)
    assert found["serialise_us"] == (None, None, 1.5)


def loads(cpu, records, wire=0.0):
    columns = {"cpu_load_cores": [cpu], "records_per_s": [records], "wire_load_cores": [wire]}
    return pa.table(columns)


def test_the_load_index_is_of_a_record_so_that_more_input_is_no_fault():
    assert load_index_per_record(loads(2.0, 100.0), loads(3.0, 200.0)) == pytest.approx(75.0)
    assert load_index_per_record(loads(0.0, 0.0), loads(3.0, 200.0)) is None
    assert load_index_per_record(loads(2.0, 100.0), loads(0.0, 0.0)) is None


def test_the_cost_of_a_record_counts_those_between_nodes_alone():
    traffic = pa.table({"records_per_s": [50.0, 30.0], "bytes_per_s": [900.0, 0.0]})
    assert serialise_us(loads(2.0, 100.0, 1e-4), traffic) == pytest.approx(2.0)
    assert serialise_us(loads(2.0, 100.0, None), traffic) == 0.0
    nothing = traffic.slice(1)
    assert serialise_us(loads(2.0, 100.0), nothing) is None


def test_a_figure_that_was_not_measured_has_no_row(rows):
    assert "collocation_factor_pct" not in {row.figure for row in rows}


def test_the_report_says_promised_and_measured_in_words(rows):
    lines = report(rows)
    assert lines[0] == "version 4, plan p, over 2 windows from 12:00:00 to 12:00:10 UTC"
    assert "load_distance_pct: promised 2, measured 3.5 % of mean, was 30" in lines


@pytest.mark.parametrize(("measured", "is_broken"), [(15.0, False), (15.1, True)])
def test_a_promise_is_broken_by_more_than_the_limit(measured: float, is_broken: bool) -> None:
    figures = [("moves", 1.0, 99.0), ("load_distance_pct", 5.0, measured)]
    rows = [
        Outcome.from_row(row_of(Outcome.table, figure=name, version=3, promised=promised,
                                measured=value))
        for name, promised, value in figures
    ]  # fmt: skip
    said = broken_promise(rows, 10.0)
    assert (said is not None) is is_broken
    assert said is None or "version 3 promised a load distance of 5.00 %" in said
