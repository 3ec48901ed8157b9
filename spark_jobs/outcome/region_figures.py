"""Figures of an ordered region: before, promised by and measured under its new weights. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from ballast.contracts.records import ConnectionWindow, WorkerWeight
from ballast.contracts.regions import DEAD
from spark_jobs.draft.region_weights import capacity
from spark_jobs.outcome.figures import PlanFigure

CAPACITY, DONE, BLOCKED = "capacity_records_per_s", "done_records_per_s", "blocked_pct"
RegionWindows = Mapping[datetime, Sequence[ConnectionWindow]]
"""Connections of a region by the end of their window, oldest first."""


def region_windows(
    connections: Iterable[ConnectionWindow], region_id: str
) -> dict[datetime, list[ConnectionWindow]]:
    """The connections of one region by window."""
    windows: dict[datetime, list[ConnectionWindow]] = defaultdict(list)
    for connection in sorted(connections, key=lambda row: row.window_end_at):
        if connection.region_id == region_id:
            windows[connection.window_end_at].append(connection)
    return dict(windows)


def region_figures(
    region_id: str,
    weights: Sequence[WorkerWeight],
    before: RegionWindows,
    after: RegionWindows,
    window_s: float,
) -> list[PlanFigure]:
    """Capacity, throughput and blocking of a region.

    The capacity is promised if true rates are known. The throughput depends on the input and is
    not promised.

    Args:
        region_id: the region.
        weights: the region's weights under the plan.
        before: the windows that the plan was made from.
        after: the windows under the plan.
        window_s: length of a window.
    """
    rates = {row.worker_id: row.records_per_s for row in weights if row.records_per_s}
    previous = {row.worker_id: row.previous_weight for row in weights}
    planned = {row.worker_id: row.weight for row in weights if row.region_id == region_id}
    blocked = [row.blocked_pct for row in weights if row.blocked_pct is not None]
    return [
        PlanFigure(
            f"{CAPACITY}/{region_id}",
            "records/s",
            capacity(previous, rates or true_rates(before)),
            capacity(planned, rates),
            capacity(mean_weights(after), true_rates(after)),
        ),
        PlanFigure(
            f"{DONE}/{region_id}",
            "records/s",
            _throughput(before, window_s),
            None,
            _throughput(after, window_s),
        ),
        PlanFigure(
            f"{BLOCKED}/{region_id}",
            "%",
            _blocked_pct(before, window_s),
            max(blocked, default=None),
            _blocked_pct(after, window_s),
        ),
    ]


def true_rates(windows: RegionWindows) -> dict[str, float]:
    """Records returned in a second of busy time, for each worker that is not dead."""
    done: dict[str, float] = defaultdict(float)
    busy_s: dict[str, float] = defaultdict(float)
    for connection in _connections(windows):
        if connection.state != DEAD:
            done[connection.worker_id] += connection.done
            busy_s[connection.worker_id] += connection.busy_ms / 1000
    return {
        worker: done[worker] / busy_s[worker] for worker in done if done[worker] and busy_s[worker]
    }


def mean_weights(windows: RegionWindows) -> dict[str, int]:
    """The mean weight of each worker, in whole units."""
    total: dict[str, int] = defaultdict(int)
    for connection in _connections(windows):
        total[connection.worker_id] += connection.weight
    return {worker: round(units / len(windows)) for worker, units in total.items()}


def _throughput(windows: RegionWindows, window_s: float) -> float | None:
    if not windows:
        return None
    done = sum(connection.done for connection in _connections(windows))
    return float(done) / (len(windows) * window_s)


def _blocked_pct(windows: RegionWindows, window_s: float) -> float | None:
    """Percent of the time that the splitter was blocked by the worker that blocked it most."""
    blocked_s: dict[str, float] = defaultdict(float)
    for connection in _connections(windows):
        blocked_s[connection.worker_id] += connection.blocked_ms / 1000
    if not blocked_s:
        return None
    return 100 * max(blocked_s.values()) / (len(windows) * window_s)


def _connections(windows: RegionWindows) -> Iterable[ConnectionWindow]:
    return (connection for window in windows.values() for connection in window)
