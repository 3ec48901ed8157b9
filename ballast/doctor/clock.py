"""Checks of clocks: this host's against the store's and against the newest metrics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ballast.contracts.errors import BallastError
from ballast.contracts.settings import Settings
from ballast.doctor.finding import Finding, failed, not_checked, ok, warning
from ballast.store.tables import read_rows, table_exists

METRICS = "metrics.nodes"
WARNING_S, FAILED_S = 5.0, 60.0
"""Differences of clocks beyond which runs misjudge how old windows are."""
REMEDY = "synchronise the clocks of all hosts by NTP; windows are selected by their times"


def check_skew(check: str, other: str, ahead_s: float) -> Finding:
    """Judge how far another clock is ahead of this host's.

    Args:
        check: the name of the check.
        other: whose clock it is.
        ahead_s: seconds; negative where the other clock is behind.
    """
    side = "ahead of" if ahead_s > 0 else "behind"
    seen = f"{other} is {abs(ahead_s):,.1f} s {side} this host"
    if abs(ahead_s) >= FAILED_S:
        return failed(check, seen, REMEDY)
    if abs(ahead_s) >= WARNING_S:
        return warning(check, seen, REMEDY)
    return ok(check, f"{other} and this host differ by less than {WARNING_S:g} s")


def newest_windows(settings: Settings, jobs: list[str], now: datetime) -> dict[str, datetime]:
    """The end of the newest window of each job that has written one since yesterday."""
    found: dict[str, datetime] = {}
    if not table_exists(settings, METRICS):
        return found
    since = datetime.fromtimestamp(now.timestamp() - 86_400, now.tzinfo).date()
    for job in jobs:
        rows = read_rows(
            settings, METRICS, job=job, where=[("window_date", ">=", since)],
            columns=["window_end_at"],
        )  # fmt: skip
        ends = [end for end in rows["window_end_at"].to_pylist() if end is not None]
        if ends:
            found[job] = max(ends)
    return found


def check_metrics_clock(newest: Mapping[str, datetime], now: datetime) -> Finding:
    """Check that no job writes windows of the future.

    Args:
        newest: the end of the newest window of each job.
        now: the time of this host.
    """
    check = "clock of the metrics"
    if not newest:
        return not_checked(check, "no job has written a window since yesterday")
    job, end = max(newest.items(), key=lambda item: item[1])
    ahead_s = (end - now).total_seconds()
    if ahead_s > 0:
        return check_skew(check, f"the newest window of job {job}", ahead_s)
    return ok(check, f"the newest window, of job {job}, ended {-ahead_s:,.0f} s ago")


def metrics_clock(settings: Settings, jobs: list[str], now: datetime) -> Finding:
    """Read the newest windows and check them."""
    try:
        return check_metrics_clock(newest_windows(settings, jobs, now), now)
    except BallastError as error:
        return not_checked("clock of the metrics", str(error))
