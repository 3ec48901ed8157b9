"""Every measured figure is an outcome with its promise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from ballast.contracts.records import Ack, Draft, Outcome, Promise
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


def promise(figure, expected, *ends):
    """A promise; ``ends`` are low, high, lowest and highest."""
    names = ("low", "high", "lowest", "highest")
    row = row_of(Promise.table, figure=figure, expected=expected, **dict.fromkeys(names))
    return Promise.from_row(row | dict(zip(names, ends, strict=False)))


@pytest.fixture
def rows():
    return measured_under({})


def measured_under(promises):
    """The outcomes of a plan that makes these promises."""
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
    return outcomes_of(Measurement("probe", 4, "p", "run-2", START), period, figures, promises)


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


def test_a_plan_of_an_earlier_version_keeps_its_promised_figures_and_has_no_side(rows):
    found = {row.figure: (row.promised, row.low, row.high, row.side) for row in rows}
    assert found["load_distance_pct"] == (2.0, None, None, None)


@pytest.mark.parametrize(
    ("low", "high", "side"), [(3.0, 4.0, "inside"), (3.6, 4.0, "below"), (1.0, 3.4, "above")]
)
def test_an_outcome_names_its_side_of_the_promised_interval(low, high, side):
    rows = measured_under({"load_distance_pct": promise("load_distance_pct", 3.2, low, high)})
    found = {row.figure: (row.promised, row.low, row.high, row.side) for row in rows}
    assert found["load_distance_pct"] == (3.2, low, high, side)
    assert found["load_distance_points"] == (1.0, None, None, None)
    said = next(line for line in report(rows) if line.startswith("load_distance_pct"))
    assert f"promised 3.2 (90 % interval {low:g} to {high:g}), measured 3.5 % of mean" in said
    assert f", {side}" in said


def test_a_promise_without_an_interval_has_an_expected_value_and_no_side():
    rows = measured_under({"pause_s": promise("pause_s", 0.65)})
    found = {row.figure: (row.promised, row.side) for row in rows}
    assert found["pause_s"] == (0.65, None)
    assert "pause_s: promised 0.65, measured 0.7 s" in report(rows)


def load_distances(measured):
    figures = [("moves", 1.0, 99.0), ("load_distance_pct", 5.0, measured)]
    return [
        Outcome.from_row(row_of(Outcome.table, figure=name, version=3, promised=promised,
                                measured=value, low=4.0, high=7.0))
        for name, promised, value in figures
    ]  # fmt: skip


@pytest.mark.parametrize(("measured", "is_broken"), [(15.0, False), (15.1, True)])
def test_a_promise_without_an_interval_is_broken_by_more_than_the_limit(
    measured: float, is_broken: bool
) -> None:
    for promises in ({}, {"load_distance_pct": promise("load_distance_pct", 5.0)}):
        said = broken_promise(load_distances(measured), promises, 10.0)
        assert (said is not None) is is_broken
        assert said is None or "version 3 promised a load distance of 5.00 %" in said


@pytest.mark.parametrize(
    ("measured", "is_broken"), [(7.5, False), (9.0, False), (9.0 + 1e-12, False), (9.1, True)]
)
def test_a_promise_with_an_interval_is_broken_above_the_999_per_mille_end(
    measured: float, is_broken: bool
) -> None:
    """The limit of the policy is for plans without an interval: here it would be 15 or 5.1."""
    promises = {"load_distance_pct": promise("load_distance_pct", 5.0, 4.0, 7.0, 2.0, 9.0)}
    for limit_pct in (10.0, 0.1):
        said = broken_promise(load_distances(measured), promises, limit_pct)
        assert (said is not None) is is_broken
        assert said is None or "(90 % interval 4.00 to 7.00) and has 9.10 %" in said
