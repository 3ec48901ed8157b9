"""Only complete windows wholly after the plan count, and every figure has its promise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from spark_jobs.outcome.figures import (
    MeasuredFigures,
    broken_promise,
    enough_at,
    load_index,
    outcome_rows,
    report,
    serialise_us,
    usable_windows,
    windows_to_measure,
)
from spark_jobs.snapshot.window_selection import TakeUp, WindowSummary
from tests.support.policies import small_policy

START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
POLICY = small_policy(statistics_period_s=500)
APPLIED_AT_BATCH = 10


def window(number, first_batch, key_groups=8, silent_nodes=0, version=1):
    end = START + timedelta(seconds=5 * (number + 1))
    last = None if first_batch is None else first_batch + 1
    return WindowSummary(end, key_groups, silent_nodes, version, version, first_batch, last)


def numbers(windows, policy=POLICY, applied_at=APPLIED_AT_BATCH):
    chosen = usable_windows(policy, windows, TakeUp(1, applied_at))
    return [round((w.end_at - START).total_seconds() / 5) - 1 for w in chosen]


def test_a_window_with_a_batch_before_the_plan_does_not_count():
    before = [window(0, 6, version=0), window(1, 8, version=0)]
    assert numbers([*before, window(2, 9), window(3, 11), window(4, 12)]) == [3, 4]


def test_an_incomplete_window_does_not_count():
    windows = [window(0, 10, key_groups=7), window(1, 11, silent_nodes=1), window(2, 12)]
    assert numbers(windows) == [2]


def test_an_idle_window_counts_only_after_a_batch_of_the_plan():
    before = window(0, 8, version=0)
    assert numbers([before, window(1, None), window(2, 10), window(3, None), window(4, 11)]) == [
        2, 3, 4,
    ]  # fmt: skip
    assert numbers([before, window(1, None)]) == []


def test_a_job_that_renumbers_its_batches_after_a_restart_is_still_measured():
    """It took the plan up in batch 1000, was restarted and began with batch 0 again."""
    restarted = [window(n, 2 * n) for n in range(1, 5)]
    before = window(0, 998, version=0)
    assert numbers([before, *restarted], applied_at=1000) == [2, 3, 4]
    assert numbers(restarted, applied_at=1000) == [1, 2, 3, 4]


def test_the_latest_windows_are_taken_in_order():
    two_windows = small_policy(statistics_period_s=10)
    assert numbers([window(n, 10 + n) for n in (3, 1, 0, 2)], two_windows) == [2, 3]


def test_half_a_period_is_enough():
    assert windows_to_measure(small_policy(statistics_period_s=30)) == 3
    assert windows_to_measure(small_policy(statistics_period_s=5)) == 1


def test_enough_is_when_the_missing_windows_can_have_ended():
    policy = small_policy()
    usable = [window(0, 10)]
    now = START + timedelta(seconds=6)
    assert enough_at(policy, usable, START, now) == now + timedelta(seconds=10)
    assert enough_at(policy, [], START, START) == START + timedelta(seconds=15)


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
    return outcome_rows(plan, ack, measured, [window(0, 10), window(1, 11)], 5.0, "run-2",
                        START)  # fmt: skip


def test_forced_moves_are_part_of_what_was_promised(rows):
    found = {row["figure"]: (row["promised"], row["measured"], row["unit"]) for row in rows}
    assert found["moves"] == (4, 4.0, "key groups")
    assert found["bytes"] == (170, 170.0, "bytes")
    assert found["pause_s"] == (0.5, 0.7, "s")


def test_bytes_and_load_index_are_measured_beside_their_promise(rows):
    found = {row["figure"]: (row["before"], row["promised"], row["measured"]) for row in rows}
    assert found["wire_bytes_per_s"] == (500.0, 300.0, 310.0)
    assert found["wire_bytes_per_record"] == (5.0, 3.0, 6.2)
    assert found["load_index_pct"] == (100.0, 90.0, 92.0)
    assert found["serialise_us"] == (None, None, 1.5)


def loads(cpu, records, wire=0.0):
    columns = {"cpu_load_cores": [cpu], "records_per_s": [records], "wire_load_cores": [wire]}
    return pa.table(columns)


def test_the_load_index_is_of_a_record_so_that_more_input_is_no_fault():
    assert load_index(loads(2.0, 100.0), loads(3.0, 200.0)) == pytest.approx(75.0)
    assert load_index(loads(0.0, 0.0), loads(3.0, 200.0)) is None
    assert load_index(loads(2.0, 100.0), loads(0.0, 0.0)) is None


def test_the_cost_of_a_record_counts_those_between_nodes_alone():
    traffic = pa.table({"records_per_s": [50.0, 30.0], "bytes_per_s": [900.0, 0.0]})
    assert serialise_us(loads(2.0, 100.0, 1e-4), traffic) == pytest.approx(2.0)
    assert serialise_us(loads(2.0, 100.0, None), traffic) == 0.0
    nothing = traffic.slice(1)
    assert serialise_us(loads(2.0, 100.0), nothing) is None


def test_a_figure_that_was_not_measured_has_no_row(rows):
    assert "collocation_factor_pct" not in {row["figure"] for row in rows}


def test_the_report_says_promised_and_measured_in_words(rows):
    lines = report(rows)
    assert lines[0] == "version 4, plan p, over 2 windows from 12:00:00 to 12:00:10 UTC"
    assert "load_distance_pct: promised 2, measured 3.5 % of mean, was 30" in lines


@pytest.mark.parametrize(("measured", "is_broken"), [(15.0, False), (15.1, True)])
def test_a_promise_is_broken_by_more_than_the_limit(measured: float, is_broken: bool) -> None:
    rows = [
        {"figure": "moves", "version": 3, "promised": 1.0, "measured": 99.0},
        {"figure": "load_distance_pct", "version": 3, "promised": 5.0, "measured": measured},
    ]
    said = broken_promise(rows, 10.0)
    assert (said is not None) is is_broken
    assert said is None or "version 3 promised a load distance of 5.00 %" in said
