"""Only complete windows wholly after the plan count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_jobs.outcome.applied_plan import measurable_at, usable_windows, windows_to_measure
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
    assert measurable_at(policy, usable, START, now) == now + timedelta(seconds=10)
    assert measurable_at(policy, [], START, START) == START + timedelta(seconds=15)
