"""Only complete windows wholly after the plan count, and every figure has its promise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.outcomes import (
    Expected,
    Measured,
    Window,
    enough_at,
    outcome_rows,
    report,
    usable_windows,
    windows_needed,
)
from tests.support.policies import small_policy

START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
EXPECTED = Expected(key_groups=8, nodes=2, since_batch=10)


def window(number, first_batch, key_groups=8, nodes=2):
    start = START + timedelta(seconds=5 * number)
    return Window(start, start + timedelta(seconds=5), first_batch, key_groups, nodes)


def numbers(windows, at_most=100):
    chosen = usable_windows(windows, EXPECTED, at_most)
    return [round((w.start_at - START).total_seconds() / 5) for w in chosen]


def test_a_window_with_a_batch_before_the_plan_does_not_count():
    assert numbers([window(0, 8), window(1, 9), window(2, 10), window(3, 12)]) == [2, 3]


def test_an_incomplete_window_does_not_count():
    windows = [window(0, 10, key_groups=7), window(1, 11, nodes=1), window(2, 12)]
    assert numbers(windows) == [2]


def test_an_idle_window_counts_only_after_a_batch_of_the_plan():
    assert numbers([window(0, None), window(1, 10), window(2, None), window(3, 11)]) == [1, 2, 3]
    assert numbers([window(0, None), window(1, 9)]) == []


def test_the_latest_windows_are_taken_in_order():
    assert numbers([window(n, 10 + n) for n in (3, 1, 0, 2)], at_most=2) == [2, 3]


def test_half_a_period_is_enough():
    assert windows_needed(small_policy(statistics_period_s=30)) == 3
    assert windows_needed(small_policy(statistics_period_s=5)) == 1


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
    }  # fmt: skip
    ack = {"version": 4, "moved_key_groups": 4, "bytes_moved": 170, "pause_ms": 700.0}
    measured = Measured(3.5, 1.5, None)
    return outcome_rows(plan, ack, measured, [window(0, 10), window(1, 11)], "run-2", START)


def test_forced_moves_are_part_of_what_was_promised(rows):
    found = {row["figure"]: (row["promised"], row["measured"], row["unit"]) for row in rows}
    assert found["moves"] == (4, 4.0, "key groups")
    assert found["bytes"] == (150, 170.0, "bytes")
    assert found["pause_s"] == (0.5, 0.7, "s")


def test_a_figure_that_was_not_measured_has_no_row(rows):
    assert "collocation_factor_pct" not in {row["figure"] for row in rows}


def test_the_report_says_promised_and_measured_in_words(rows):
    lines = report(rows)
    assert lines[0] == "version 4, plan p, over 2 windows from 12:00:00 to 12:00:10 UTC"
    assert "load_distance_pct: promised 2, measured 3.5 % of mean, was 30" in lines
