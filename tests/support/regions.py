"""Rows of an ordered region's connections, as its writer would write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import ConnectionWindow
from ballast.contracts.regions import even_units

Row = dict[str, Any]


def connection_rows(
    policy: JobPolicy,
    region_id: str,
    end: datetime,
    rates: Mapping[str, float],
    *,
    weights: Mapping[str, int] | None = None,
    blocked: Mapping[str, float] | None = None,
    windows: int = 6,
    dead: tuple[str, ...] = (),
    version: int = 0,
) -> list[Row]:
    """Rows of ``metrics.connections``: each worker is busy all the time, at its rate per second.

    A worker without a rate has no row; ``blocked`` are shares of the time; dead workers died
    before.
    """
    region = policy.region(region_id)
    assert region is not None
    units = weights or even_units(region.worker_ids)
    window = timedelta(seconds=policy.window_s)
    return [
        {
            "job": policy.job,
            "region_id": region_id,
            "worker_id": worker,
            "window_date": (end - back * window).date(),
            "window_start_at": end - (back + 1) * window,
            "window_end_at": end - back * window,
            "first_batch_id": None,
            "last_batch_id": None,
            "plan_version": version,
            "emitted_at": end - back * window,
            "state": "dead" if worker in dead else "alive",
            "weight": units[worker],
            "sent": 0 if worker in dead else round(rate * policy.window_s),
            "done": 0 if worker in dead else round(rate * policy.window_s),
            "blocked_ms": 1000 * policy.window_s * (blocked or {}).get(worker, 0.0),
            "busy_ms": 0.0 if worker in dead else 1000 * policy.window_s,
        }
        for back in reversed(range(windows))
        for worker, rate in rates.items()
    ]


def connection_windows(rows: list[Row]) -> list[ConnectionWindow]:
    """The rows as records without a snapshot."""
    return [ConnectionWindow.from_row({**row, "snapshot_id": ""}) for row in rows]
