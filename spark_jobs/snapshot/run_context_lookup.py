"""Find the context of a run before Spark starts.

A run that has its snapshot, and a job without fresh metrics, need no JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Ack, Head, Snapshot
from ballast.contracts.scaling import scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_head, read_scaling
from ballast.store.snapshots import newest_snapshot
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import open_table, read_rows
from expectations.row_rules import CLOCK_SKEW_S
from spark_jobs.snapshot.metric_tables import (
    CONNECTIONS,
    KEY_GROUPS,
    KEY_PAIRS,
    NODES,
    SOURCES,
    TRAFFIC,
)
from spark_jobs.snapshot.metrics_freshness import (
    longest_age,
    newest_aligned,
    no_fresh_metrics,
    require_last_step,
    require_taken_up,
)
from spark_jobs.snapshot.remembered_snapshots import SnapshotPeriod, non_overlapping
from spark_jobs.snapshot.run_context import PinnedVersions, RunContext, SnapshotRequest
from spark_jobs.snapshot.statistics_period import StatisticsPeriod, period_ending_at
from spark_jobs.snapshot.window_rows import FILE_STATISTICS_STEP
from spark_jobs.snapshot.window_selection import TakeUp

TABLES_USED = (
    KEY_GROUPS, NODES, TRAFFIC, KEY_PAIRS, SOURCES, CONNECTIONS, "metrics.rejected",
    "snapshots.key_groups", "snapshots.nodes", "snapshots.traffic", "snapshots.noise",
    "snapshots.key_pairs", "snapshots.load_series", "snapshots.sources", "snapshots.connections",
    Snapshot.table,
)  # fmt: skip


def find_run_context(settings: Settings, request: SnapshotRequest) -> RunContext:
    """Pin the table versions and find the statistics period.

    The head is read before anything is pinned. A plan that is published meanwhile then makes the
    draft lose, instead of being replaced by a draft that was made without it.

    The nodes are pinned first, and the period ends at their newest window. A streaming job
    commits its nodes last, so the rows of that window are in the other tables too.

    Raises:
        GateFailed: the job has no fresh metrics, or has not taken up the plan in force, or still
            makes steps of it.
    """
    job = request.job
    head = read_head(settings, job)
    pins = pin_tables(settings, request.policy)
    newest = _newest_fresh_window(settings, request, pins.nodes)
    if newest is None:
        # Only for this message are all windows of the small table of nodes read.
        raise no_fresh_metrics(request, window_ends(settings, request, pins.nodes))
    ran_under = version_at(settings, request, pins.nodes, newest)
    head_acks = read_acks(settings, job, head.version) if head else []
    require_taken_up(head, head_acks, ran_under, newest)
    acks = read_acks(settings, job, ran_under) if ran_under else []
    require_last_step(request.policy, acks, ran_under)
    plan_id = _plan_of_version(head, ran_under, acks)
    rows = read_scaling(settings, job, plan_id) if plan_id else []
    period = period_ending_at(request.policy, newest)
    return RunContext(
        pins=pins,
        period=period,
        previous=newest_snapshot(settings, job),
        head=head,
        applied_plan_id=plan_id,
        scaling=tuple(scaled(rows)),
        take_up=TakeUp(ran_under, _applied_batch(acks)),
        remembered=_remembered(settings, request, period),
    )


def _newest_fresh_window(
    settings: Settings, request: SnapshotRequest, nodes_version: int
) -> datetime | None:
    """End of the newest window that is not too old; the period is searched first."""
    longest = longest_age(request.policy)
    period = timedelta(seconds=request.policy.statistics_period_s)
    for reach in (min(period, longest), longest):
        since = request.as_of - reach
        ends = window_ends(settings, request, nodes_version, since)
        newest = newest_aligned(ends, request.policy)
        if newest is not None:
            return newest
    return None


def _applied_batch(acks: Sequence[Ack]) -> int | None:
    """The batch that took a version up, or made its last step; None if there is none yet."""
    applied = [ack.batch_id for ack in acks if ack.status == "applied"]
    return applied[-1] if applied else None


def _plan_of_version(head: Head | None, version: int, acks: Sequence[Ack]) -> str | None:
    """The plan of a version: the head's, or the one taken up before the job refused the head."""
    if head is not None and head.version == version:
        return head.plan_id
    return acks[-1].plan_id if acks else None


def _remembered(
    settings: Settings, request: SnapshotRequest, period: StatisticsPeriod
) -> tuple[str, ...]:
    """Snapshots with key statistics from before the period.

    They are part of the snapshot, so that verification and publication use the same ones.
    """
    routing = request.policy.routing
    if not routing.edges or not routing.memory_rounds:
        return ()
    earlier = snapshot_periods(settings, request.job, period.start)
    return non_overlapping(earlier, routing.memory_rounds)


def ensure_used_tables(settings: Settings) -> None:
    """Create the tables that ``condense`` reads and writes, so that a new warehouse is empty."""
    ensure_tables(settings, TABLES_USED)


def pin_tables(settings: Settings, policy: JobPolicy) -> PinnedVersions:
    """The present versions of the metrics tables that the policy needs; nodes first."""

    def version(name: str) -> int:
        return int(open_table(settings, name).version())

    return PinnedVersions(
        nodes=version(NODES),
        key_groups=version(KEY_GROUPS),
        traffic=version(TRAFFIC),
        key_pairs=version(KEY_PAIRS) if policy.needs_keys else None,
        sources=version(SOURCES) if policy.scaling is not None else None,
        connections=version(CONNECTIONS) if policy.regions else None,
    )


def window_ends(
    settings: Settings, request: SnapshotRequest, version: int, since: datetime | None = None
) -> list[datetime]:
    """Ends of the windows in ``metrics.nodes`` up to the time of the run, in no order."""
    where: list[tuple[str, str, Any]] = [
        ("window_end_at", "<=", request.as_of + timedelta(seconds=CLOCK_SKEW_S)),
    ]
    if since is not None:
        where += [
            ("window_end_at", ">", since + FILE_STATISTICS_STEP),
            ("window_date", ">=", since.date()),
        ]
    ends = read_rows(
        settings, NODES, job=request.job, where=where, version=version, columns=["window_end_at"]
    )["window_end_at"]
    return list(pc.unique(ends).to_pylist())


def version_at(
    settings: Settings, request: SnapshotRequest, nodes_version: int, end: datetime
) -> int:
    """The plan version in force at the end of a window."""
    where = [("window_end_at", "=", end), ("window_date", "=", end.date())]
    rows = read_rows(
        settings, NODES, job=request.job, where=where, version=nodes_version,
        columns=["plan_version"],
    )  # fmt: skip
    return int(pc.max(rows["plan_version"]).as_py() or 0)


def snapshot_periods(settings: Settings, job: str, until: datetime) -> list[SnapshotPeriod]:
    """The periods of the job's snapshots that end at or before a time, in no order."""
    names = list(SnapshotPeriod.__dataclass_fields__)
    where = [("period_end_at", "<=", until)]
    rows = read_rows(settings, Snapshot.table, job=job, where=where, columns=names)
    return [SnapshotPeriod(**row) for row in rows.to_pylist()]
