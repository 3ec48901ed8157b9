"""The context of a job before Spark starts, and the error of a job without metrics."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ballast.contracts.errors import GateFailed
from ballast.contracts.settings import Settings
from spark_jobs.snapshot.remembered_snapshots import SnapshotPeriod, non_overlapping
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.run_context_lookup import find_run_context
from tests.support.metrics import write_windows
from tests.support.policies import small_policy
from tests.support.snapshots import END


def test_a_job_without_metrics_is_told_what_to_do_and_not_where_the_warehouse_is(
    settings: Settings,
) -> None:
    with pytest.raises(GateFailed, match=r"has no metrics .* start the streaming job") as refused:
        find_run_context(settings, SnapshotRequest(small_policy("probe"), "run-1", END))
    assert settings.warehouse not in str(refused.value)


@pytest.mark.parametrize("was_on_it", [False, True])
def test_a_job_whose_windows_are_off_the_grid_is_told_so(
    settings: Settings, was_on_it: bool
) -> None:
    policy = small_policy("probe")
    if was_on_it:
        write_windows(settings, policy, END - timedelta(days=1), 3)
    write_windows(settings, policy, END - timedelta(seconds=3 * policy.window_s + 1), 3)
    with pytest.raises(GateFailed, match=r"do not end at multiples of .* window_s") as refused:
        find_run_context(settings, SnapshotRequest(policy, "run-1", END))
    assert ("none does" in str(refused.value)) is not was_on_it


def test_a_job_that_stopped_is_silent_though_a_stray_window_came_after(settings: Settings) -> None:
    policy = small_policy("probe")
    end = write_windows(settings, policy, END - timedelta(days=1), 3)
    write_windows(settings, policy, end + timedelta(seconds=1), 1)
    with pytest.raises(GateFailed, match="is silent since"):
        find_run_context(settings, SnapshotRequest(policy, "run-1", END))


def _snapshot(
    name: str, end_s: int, length_s: int = 60, taken_s: int = 0, version: int | None = 1
) -> SnapshotPeriod:
    end = END + timedelta(seconds=end_s)
    start, taken = end - timedelta(seconds=length_s), end + timedelta(seconds=taken_s)
    return SnapshotPeriod(name, version, start, end, taken)


def test_the_newest_snapshots_that_share_no_window_are_remembered_oldest_first() -> None:
    rows = [
        _snapshot("a", 0), _snapshot("b", 100), _snapshot("overlaps c", 170),
        _snapshot("c", 200, length_s=90), _snapshot("no keys", 300, version=None),
        _snapshot("derived", 400, taken_s=50), _snapshot("d", 400, taken_s=1),
    ]  # fmt: skip
    assert non_overlapping(rows, 8) == ("a", "b", "c", "d")
    assert non_overlapping(rows, 2) == ("c", "d")
    assert non_overlapping([], 2) == ()
