"""A window counts if everything reported in it and it ran wholly under one version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_jobs.snapshot.window_selection import (
    TakeUp,
    WindowSummary,
    measurable_at,
    select_windows,
    usable_windows,
    windows_needed,
    windows_to_measure,
    windows_under_version,
)
from tests.support.policies import small_policy

START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
WINDOW = timedelta(seconds=5)
POLICY = small_policy(statistics_period_s=500)
APPLIED_AT_BATCH = 10


def windows(*given: tuple[int, int | None]) -> list[WindowSummary]:
    """Windows of two batches each with their version and first batch, oldest first."""
    return [
        WindowSummary(
            START + n * WINDOW, 8, 0, version, version, batch, None if batch is None else batch + 1
        )
        for n, (version, batch) in enumerate(given)
    ]


def numbers(given: list[WindowSummary], version: int, batch: int | None) -> list[int]:
    under = windows_under_version(given, TakeUp(version, batch))
    return [(window.end_at - START) // WINDOW for window in under]


def test_a_window_with_batches_from_before_the_take_up_is_not_of_the_version() -> None:
    given = windows((1, 10), (1, 12), (2, 14), (2, 16), (2, None), (2, 18))
    assert numbers(given, 2, 15) == [3, 4, 5]
    assert numbers(given, 2, 14) == [2, 3, 4, 5]
    # Also if it is the first of the period, and ended before the batch itself did.
    assert numbers(windows((2, 12), (2, 14)), 2, 14) == [1]


def test_a_job_that_numbers_its_batches_anew_loses_the_first_window_of_the_version_alone() -> None:
    assert numbers(windows((1, 998), (2, 0), (2, 2)), 2, 1000) == [2]
    # Later on, when the whole period is of the version: a gate that needs every window opens.
    assert numbers(windows((2, 0), (2, 2), (2, 4)), 2, 1000) == [0, 1, 2]


def test_without_the_jobs_acknowledgement_the_first_window_after_others_does_not_count() -> None:
    given = windows((1, 10), (2, 14), (2, 16))
    assert numbers(given, 2, None) == [2]
    assert numbers(windows((2, 14), (2, 16)), 2, None) == [0, 1]
    assert numbers(windows((1, 14), (1, 16)), 2, None) == []
    silent = [WindowSummary(START), WindowSummary(START + WINDOW, 8, 0, 0, 0, 1)]
    assert numbers(silent, 0, None) == [1]


def test_an_idle_window_counts_unless_the_version_may_begin_in_it() -> None:
    assert numbers(windows((1, 8), (2, None), (2, 10), (2, None), (2, 12)), 2, 10) == [2, 3, 4]
    assert numbers(windows((2, None), (2, 10), (2, None)), 2, 10) == [0, 1, 2]


def test_a_window_whose_rows_name_several_versions_is_of_none() -> None:
    mixed = WindowSummary(START, 8, 0, 1, 2, 3, 4)
    assert windows_under_version([mixed], TakeUp(2, 1)) == []


def test_a_window_counts_if_every_key_group_and_node_reported() -> None:
    given = [
        WindowSummary(START, 8, 0, 1, 1, 10, 11),
        WindowSummary(START + WINDOW, 7, 0, 1, 1, 12, 13),
        WindowSummary(START + 2 * WINDOW, 8, 1, 1, 1, 14, 15),
        WindowSummary(START + 3 * WINDOW, 8, 0, 0, 0, 16, 17),
    ]
    selected = select_windows(list(reversed(given)), 8, TakeUp(1, 10))
    assert selected.complete == (given[0], given[3])
    assert selected.usable == (given[0],)


def test_the_share_of_complete_windows_rounds_up() -> None:
    def needed(**changed: object) -> int:
        policy = small_policy(**changed)
        return windows_needed(policy, policy.thresholds.complete_windows_share)

    assert needed() == 5
    assert needed(thresholds={"complete_windows_share": 1.0}) == 6
    assert needed(thresholds={"complete_windows_share": 0.01}) == 1
    assert needed(statistics_period_s=60, thresholds={"complete_windows_share": 0.75}) == 9


def window(number, first_batch, key_groups=8, silent_nodes=0, version=1):
    end = START + timedelta(seconds=5 * (number + 1))
    last = None if first_batch is None else first_batch + 1
    return WindowSummary(end, key_groups, silent_nodes, version, version, first_batch, last)


def measured(windows, policy=POLICY, applied_at=APPLIED_AT_BATCH):
    chosen = usable_windows(policy, windows, TakeUp(1, applied_at))
    return [round((w.end_at - START).total_seconds() / 5) - 1 for w in chosen]


def test_a_window_with_a_batch_before_the_plan_does_not_count():
    before = [window(0, 6, version=0), window(1, 8, version=0)]
    assert measured([*before, window(2, 9), window(3, 11), window(4, 12)]) == [3, 4]


def test_an_incomplete_window_does_not_count():
    windows = [window(0, 10, key_groups=7), window(1, 11, silent_nodes=1), window(2, 12)]
    assert measured(windows) == [2]


def test_an_idle_window_counts_only_after_a_batch_of_the_plan():
    before = window(0, 8, version=0)
    assert measured([before, window(1, None), window(2, 10), window(3, None), window(4, 11)]) == [
        2, 3, 4,
    ]  # fmt: skip
    assert measured([before, window(1, None)]) == []


def test_a_job_that_renumbers_its_batches_after_a_restart_is_still_measured():
    """It took the plan up in batch 1000, was restarted and began with batch 0 again."""
    restarted = [window(n, 2 * n) for n in range(1, 5)]
    before = window(0, 998, version=0)
    assert measured([before, *restarted], applied_at=1000) == [2, 3, 4]
    assert measured(restarted, applied_at=1000) == [1, 2, 3, 4]


def test_the_latest_windows_are_taken_in_order():
    two_windows = small_policy(statistics_period_s=10)
    assert measured([window(n, 10 + n) for n in (3, 1, 0, 2)], two_windows) == [2, 3]


def test_half_a_period_is_enough():
    assert windows_to_measure(small_policy(statistics_period_s=30)) == 3
    assert windows_to_measure(small_policy(statistics_period_s=5)) == 1


def test_enough_is_when_the_missing_windows_can_have_ended():
    policy = small_policy()
    usable = [window(0, 10)]
    now = START + timedelta(seconds=6)
    assert measurable_at(policy, usable, START, now) == now + timedelta(seconds=10)
    assert measurable_at(policy, [], START, START) == START + timedelta(seconds=15)


def test_no_window_with_a_batch_between_two_steps_is_of_the_version() -> None:
    # Steps from batch 13 to batch 19, which made the last one.
    given = windows((1, 10), (2, 12), (2, 14), (2, None), (2, 16), (2, 18), (2, 20), (2, None))
    assert numbers(given, 2, 19) == [6, 7]
    assert numbers(given, 2, 18) == [5, 6, 7]
    # Also if the period begins between steps.
    assert numbers(given[3:], 2, 19) == [6, 7]
