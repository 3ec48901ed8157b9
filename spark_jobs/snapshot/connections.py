"""Connections of ordered regions: the newest good windows of the period, and who is silent.

A region that says nothing does not fail the gate. Its weights are no more wrong than before, and
the rest of the job must not wait for it (docs/adr/0050).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.contracts.tables import CONNECTION_FIGURES
from ballast.store.tables import read_rows
from spark_jobs.program.run import progress
from spark_jobs.snapshot.messages import iso, some
from spark_jobs.snapshot.request import Found, Period, Request

CONNECTIONS = "metrics.connections"
COLUMNS = ("region_id", "worker_id", "window_end_at", *(c.name for c in CONNECTION_FIGURES))
MOST_WINDOWS = 240
MOST_ROWS = 200_000
SILENCE_READ = timedelta(days=1)


def newest_connections(good: DataFrame, policy: JobPolicy, period: Period) -> DataFrame:
    """The rows of the newest windows, so many that one machine takes them easily."""
    workers = sum(len(region.worker_ids) for region in policy.regions)
    windows = max(1, min(period.windows, MOST_WINDOWS, MOST_ROWS // workers))
    end = fn.col("window_end_at")
    in_reach = (end > fn.lit(period.back(windows))) & (end <= fn.lit(period.end))
    return good.where(in_reach).select(*COLUMNS).persist()


def tell_of_silence(settings: Settings, request: Request, found: Found, newest: DataFrame) -> None:
    """Say which regions and workers were not heard of, since when, and what to do."""
    heard = {(r["region_id"], r["worker_id"]) for r in newest.select(*COLUMNS[:2]).collect()}
    for region in request.policy.regions:
        missing = [w for w in region.worker_ids if (region.id, w) not in heard]
        if len(missing) == len(region.worker_ids):
            last = _last_window(settings, request, found, region.id)
            since = f"since {iso(last)}" if last else "for a day or longer"
            progress.info(
                "region %s is silent %s: its weights stay, and the plan goes on without it; to "
                "fix it: see that the region runs and writes %s", region.id, since, CONNECTIONS,
            )  # fmt: skip
        elif missing:
            progress.info(
                "region %s: %s not measured in the period, so weights stay",
                region.id, some(missing),
            )  # fmt: skip


def _last_window(
    settings: Settings, request: Request, found: Found, region_id: str
) -> datetime | None:
    """End of the region's last window within a day of the period."""
    begin = found.period.start - SILENCE_READ
    rows = read_rows(
        settings, CONNECTIONS, job=request.job, columns=["window_end_at"],
        version=found.pins.connections,
        where=[
            ("window_date", ">=", begin.date()),
            ("window_end_at", "<=", found.period.end),
            ("region_id", "=", region_id),
        ],
    )  # fmt: skip
    return max(rows["window_end_at"].to_pylist(), default=None)
