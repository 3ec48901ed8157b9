"""Connections of ordered regions: the newest good windows of the period, and silent regions.

A silent region does not fail the gate. Its weights stay as they are, and the rest of the job is
planned without it (ADR 50).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from ballast.contracts.policy import JobPolicy
from ballast.contracts.regions import RegionPolicy
from ballast.contracts.tables import CONNECTION_FIGURES
from spark_jobs.snapshot.message_text import shortened_list, utc_text
from spark_jobs.snapshot.metric_tables import CONNECTIONS
from spark_jobs.snapshot.statistics_period import StatisticsPeriod

COLUMNS = ("region_id", "worker_id", "window_end_at", *(c.name for c in CONNECTION_FIGURES))
MOST_WINDOWS = 240
MOST_ROWS = 200_000
# How far back before the period the last window of a silent region is looked for.
SILENCE_READ = timedelta(days=1)


def newest_connections(good: DataFrame, policy: JobPolicy, period: StatisticsPeriod) -> DataFrame:
    """The rows of the newest windows, at most about ``MOST_ROWS``."""
    workers = sum(len(region.worker_ids) for region in policy.regions)
    windows = max(1, min(period.windows, MOST_WINDOWS, MOST_ROWS // workers))
    end = fn.col("window_end_at")
    is_recent = (end > fn.lit(period.back(windows))) & (end <= fn.lit(period.end))
    return good.where(is_recent).select(*COLUMNS).persist()


def reporting_workers(connections: DataFrame) -> dict[str, set[str]]:
    """The workers that have rows, by region."""
    workers: dict[str, set[str]] = {}
    for row in connections.select(*COLUMNS[:2]).distinct().collect():
        workers.setdefault(row["region_id"], set()).add(row["worker_id"])
    return workers


def silent_regions(
    policy: JobPolicy, reporting: Mapping[str, Collection[str]]
) -> list[RegionPolicy]:
    """The regions of which no worker reported."""
    return [
        region
        for region in policy.regions
        if not set(region.worker_ids) & set(reporting.get(region.id, ()))
    ]


def silence_messages(
    policy: JobPolicy,
    reporting: Mapping[str, Collection[str]],
    last_windows: Mapping[str, datetime | None],
) -> list[str]:
    """One line for each region of which a worker did not report, with what to do.

    Args:
        policy: the job's policy.
        reporting: the workers that reported, by region.
        last_windows: the end of the last window of each silent region; None if there is none.
    """
    messages = []
    for region in policy.regions:
        present = reporting.get(region.id, ())
        missing = [worker for worker in region.worker_ids if worker not in present]
        if len(missing) == len(region.worker_ids):
            last = last_windows[region.id]
            since = f"since {utc_text(last)}" if last else "for a day or longer"
            messages.append(
                f"region {region.id} is silent {since}: its weights stay, and the plan is made "
                f"without it; to fix it: see that the region runs and writes {CONNECTIONS}"
            )
        elif missing:
            messages.append(
                f"region {region.id}: {shortened_list(missing)} not measured in the period, so "
                "weights stay"
            )
    return messages
