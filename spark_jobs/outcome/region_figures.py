"""What weights came to: promised against measured for each ordered region of a plan. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from ballast.contracts.regions import DEAD, weighted, weights_of
from spark_jobs.draft.problem import Row
from spark_jobs.draft.region_weights import capacity

CAPACITY, DONE, BLOCKED = "capacity_records_per_s", "done_records_per_s", "blocked_pct"
UNITS_OF = {CAPACITY: "records/s", DONE: "records/s", BLOCKED: "%"}
Windows = Mapping[datetime, Sequence[Row]]
"""Rows of a region's connections by the end of their window, oldest first."""


def windows_of_region(rows: Iterable[Row], region_id: str) -> dict[datetime, list[Row]]:
    """A region's rows by window."""
    found: dict[datetime, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["window_end_at"]):
        if row["region_id"] == region_id:
            found[row["window_end_at"]].append(row)
    return dict(found)


def region_figures(
    region_id: str, weights: Sequence[Row], before: Windows, after: Windows, window_s: float
) -> list[tuple[str, float | None, float | None, float | None]]:
    """Figure, its value before the plan, as promised and as measured.

    ``weights`` are the plan's rows of the region, ``before`` the windows it was made from and
    ``after`` those under it. What a region can take is promised where true rates are known; what
    it did depends on what was offered, and is no promise.
    """
    rates = {r["worker_id"]: r["records_per_s"] for r in weights if r["records_per_s"]}
    previous = {row["worker_id"]: row["previous_weight"] for row in weights}
    promised = weights_of(weighted(weights), region_id)
    blocked = [row["blocked_pct"] for row in weights if row["blocked_pct"] is not None]
    return [
        (
            f"{CAPACITY}/{region_id}",
            capacity(previous, rates or true_rates(before)),
            capacity(promised, rates),
            capacity(mean_weights(after), true_rates(after)),
        ),
        (f"{DONE}/{region_id}", _done(before, window_s), None, _done(after, window_s)),
        (
            f"{BLOCKED}/{region_id}",
            _blocked(before, window_s),
            max(blocked, default=None),
            _blocked(after, window_s),
        ),
    ]


def true_rates(windows: Windows) -> dict[str, float]:
    """Records that came back over the time in which there were any, of workers that live."""
    done: dict[str, float] = defaultdict(float)
    busy_s: dict[str, float] = defaultdict(float)
    for row in _rows(windows):
        if row["state"] != DEAD:
            done[row["worker_id"]] += row["done"]
            busy_s[row["worker_id"]] += row["busy_ms"] / 1000
    return {
        worker: done[worker] / busy_s[worker] for worker in done if done[worker] and busy_s[worker]
    }


def mean_weights(windows: Windows) -> dict[str, int]:
    """The weight that each worker had, in whole units."""
    total: dict[str, int] = defaultdict(int)
    for row in _rows(windows):
        total[row["worker_id"]] += row["weight"]
    return {worker: round(units / len(windows)) for worker, units in total.items()}


def _done(windows: Windows, window_s: float) -> float | None:
    if not windows:
        return None
    return float(sum(row["done"] for row in _rows(windows))) / (len(windows) * window_s)


def _blocked(windows: Windows, window_s: float) -> float | None:
    """Percent of the time that the splitter waited for the worker it waited for most."""
    blocked: dict[str, float] = defaultdict(float)
    for row in _rows(windows):
        blocked[row["worker_id"]] += row["blocked_ms"] / 1000
    if not blocked:
        return None
    return 100 * max(blocked.values()) / (len(windows) * window_s)


def _rows(windows: Windows) -> Iterable[Row]:
    return (row for rows in windows.values() for row in rows)


def region_rows(
    common: Row,
    figures: Sequence[tuple[str, float | None, float | None, float | None]],
    ends: Sequence[datetime],
    window_s: float,
) -> list[Row]:
    """Rows of plans.outcomes; a figure that could not be measured has none."""
    return [
        {
            **common,
            "windows": len(ends),
            "period_start_at": ends[0] - timedelta(seconds=window_s),
            "period_end_at": ends[-1],
            "figure": figure,
            "unit": UNITS_OF[figure.partition("/")[0]],
            "before": before,
            "promised": promised,
            "measured": float(value),
        }
        for figure, before, promised, value in figures
        if value is not None
    ]
