"""What can be known before Spark starts, read without a JVM: earlier snapshots, pins, freshness.

A run whose snapshot exists, and a job that says nothing, cost no JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head
from ballast.contracts.scaling import scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_head, read_scaling
from ballast.store.snapshots import newest_snapshot
from ballast.store.tables import ensure_tables, open_table, read_rows
from expectations.policy_rules import CLOCK_SKEW_S
from spark_jobs.snapshot.messages import iso
from spark_jobs.snapshot.request import (
    STATISTICS_STEP,
    Found,
    Period,
    Pins,
    Request,
    Row,
    period_of,
)

SNAPSHOTS = "snapshots.snapshots"
TABLES_USED = (
    "metrics.key_groups", "metrics.nodes", "metrics.traffic", "metrics.key_pairs",
    "metrics.sources", "metrics.connections", "metrics.rejected", "snapshots.key_groups",
    "snapshots.nodes", "snapshots.traffic", "snapshots.key_pairs", "snapshots.load_series",
    "snapshots.sources", "snapshots.connections", SNAPSHOTS,
)  # fmt: skip
# A job is silent when its newest window is older than this many windows, but not before a
# minute: batches take time, and so does committing their metrics.
FRESH_WINDOWS = 3
FRESH_S = 60.0


def ensure_used_tables(settings: Settings) -> None:
    """Create what ``condense`` reads and writes, so that a new warehouse is merely empty."""
    ensure_tables(settings, TABLES_USED)


def look_up(settings: Settings, request: Request) -> Found:
    """Pin the tables and find the period; a job without fresh metrics fails the gate here.

    The nodes are pinned first and the period ends at their newest window: a streaming job
    commits its nodes last, so that what the other tables say of that window is there.

    The head is read before anything is pinned: a plan that is published meanwhile then makes the
    draft lose, instead of being replaced by one that was made without it.
    """
    head = read_head(settings, request.job)
    nodes = open_table(settings, "metrics.nodes").version()
    routes_keys = bool(request.policy.routing.edges)
    is_scaled = request.policy.scaling is not None
    has_regions = bool(request.policy.regions)
    pins = Pins(
        nodes=nodes,
        key_groups=open_table(settings, "metrics.key_groups").version(),
        traffic=open_table(settings, "metrics.traffic").version(),
        key_pairs=open_table(settings, "metrics.key_pairs").version() if routes_keys else None,
        sources=open_table(settings, "metrics.sources").version() if is_scaled else None,
        connections=open_table(settings, "metrics.connections").version() if has_regions else None,
    )
    newest = _newest_fresh_window_end(settings, request, nodes)
    if newest is None:
        raise _silent(settings, request, nodes)
    ran_under = _version_of_window(settings, request, nodes, newest)
    _require_taken_up(settings, request, head, ran_under, newest)
    previous = newest_snapshot(settings, request.job)
    plan_id = _plan_of_version(settings, request.job, head, ran_under)
    rows = read_scaling(settings, request.job, plan_id) if plan_id else []
    period = period_of(request.policy, newest)
    return Found(
        pins, period, previous, head, plan_id, tuple(scaled(rows)), ran_under,
        _applied_batch(settings, request.job, ran_under), _remembered(settings, request, period),
    )  # fmt: skip


def _applied_batch(settings: Settings, job: str, version: int) -> int | None:
    """The batch that took a version up; None where the job has not said it, as of version 0."""
    acks = read_acks(settings, job, version) if version else []
    applied = [int(ack["batch_id"]) for ack in acks if ack["status"] == "applied"]
    return applied[-1] if applied else None


def _remembered(settings: Settings, request: Request, period: Period) -> tuple[str, ...]:
    """Snapshots with statistics of keys from before the period; pinned, so that whoever verifies
    or publishes later reckons with the same."""
    routing = request.policy.routing
    if not routing.edges or not routing.memory_rounds:
        return ()
    where = [("period_end_at", "<=", period.start)]
    columns = ["snapshot_id", "key_pairs_table_version", "period_start_at", "period_end_at",
               "created_at"]  # fmt: skip
    rows = read_rows(settings, SNAPSHOTS, job=request.job, where=where, columns=columns)
    return apart(rows.to_pylist(), routing.memory_rounds)


def apart(snapshots: Sequence[Row], most: int) -> tuple[str, ...]:
    """The newest snapshots with statistics of keys that share no window, oldest first.

    A window that counted twice would tell a back-test what it is to foretell. Of several of one
    period, such as those that a rollback stands on, the first counts.
    """
    counted = [row for row in snapshots if row["key_pairs_table_version"] is not None]
    chosen: list[Row] = []
    for row in sorted(counted, key=lambda r: (-r["period_end_at"].timestamp(), r["created_at"])):
        if not chosen or row["period_end_at"] <= chosen[-1]["period_start_at"]:
            chosen.append(row)
    return tuple(row["snapshot_id"] for row in reversed(chosen[:most]))


def _version_of_window(settings: Settings, request: Request, nodes: int, end: datetime) -> int:
    """The plan version that a window ran under, at its end."""
    where = [("window_end_at", "=", end), ("window_date", "=", end.date())]
    rows = read_rows(
        settings, "metrics.nodes", job=request.job, where=where, version=nodes,
        columns=["plan_version"],
    )  # fmt: skip
    return int(pc.max(rows["plan_version"]).as_py() or 0)


def _plan_of_version(settings: Settings, job: str, head: Head | None, version: int) -> str | None:
    """The plan of a version: the head's, or one that the job took up before it refused the head."""
    if head is not None and head.version == version:
        return head.plan_id
    acks = read_acks(settings, job, version) if version else []
    return acks[-1]["plan_id"] if acks else None


def _require_taken_up(
    settings: Settings, request: Request, head: Head | None, ran_under: int, newest: datetime
) -> None:
    """Fail the gate while the newest window is of an older version than the head.

    A plan made from it would move key groups from where they no longer will be. A version that
    the job refused is not waited for: the job stays where its windows say.
    """
    if head is None:
        return
    acks = read_acks(settings, request.job, head.version)
    refused = bool(acks) and acks[-1]["status"] == "refused"
    if ran_under < head.version and not refused:
        raise GateFailed(
            f"version {head.version} of job {request.job} is published but not taken up: the "
            f"window up to {iso(newest)} still ran under version {ran_under}; wait for the job's "
            f"next batches, or see `ballast plans show {request.job}`, then start a new run"
        )


def nodes_of_snapshot(settings: Settings, job: str, snapshot: Row | None) -> dict[str, Row]:
    """The nodes of a snapshot by id; none without a snapshot."""
    if snapshot is None:
        return {}
    where = [("snapshot_id", "=", snapshot["snapshot_id"])]
    rows = read_rows(settings, "snapshots.nodes", job=job, where=where).to_pylist()
    return {row["node_id"]: row for row in rows}


def _newest_fresh_window_end(settings: Settings, request: Request, version: int) -> datetime | None:
    """The newest window that is not too old; windows before the period are looked at last."""
    longest = _fresh(request)
    period = timedelta(seconds=request.policy.statistics_period_s)
    for back in (min(period, longest), longest):
        since = request.as_of - back
        newest = _newest_window_end(settings, request, version, since)
        if newest is not None:
            return newest
    return None


def _fresh(request: Request) -> timedelta:
    """How far back a window counts as one of a job that runs."""
    return timedelta(seconds=max(FRESH_WINDOWS * request.policy.window_s, FRESH_S))


def _newest_window_end(
    settings: Settings, request: Request, version: int, since: datetime | None
) -> datetime | None:
    """End of the newest plausible window of ``metrics.nodes``.

    A window in the future or off the grid is a bad row: it must not move the period.
    """
    ends = _window_ends(settings, request, version, since)
    return max((end for end in ends if _aligned(end, request.policy)), default=None)


def _window_ends(
    settings: Settings, request: Request, version: int, since: datetime | None
) -> list[datetime]:
    """Ends of windows up to the time of the run, on the policy's grid or off it."""
    where: list[tuple[str, str, Any]] = [
        ("window_end_at", "<=", request.as_of + timedelta(seconds=CLOCK_SKEW_S)),
    ]
    if since is not None:
        where += [
            ("window_end_at", ">", since + STATISTICS_STEP),
            ("window_date", ">=", since.date()),
        ]
    ends = read_rows(
        settings, "metrics.nodes", job=request.job, where=where, version=version,
        columns=["window_end_at"],
    )["window_end_at"]  # fmt: skip
    return list(pc.unique(ends).to_pylist())


def _aligned(end: datetime, policy: JobPolicy) -> bool:
    micros = (end - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return micros % round(policy.window_s * 1_000_000) == 0


def _silent(settings: Settings, request: Request, version: int) -> GateFailed:
    """Why there is no period; only here the whole history of a small table is looked through."""
    ends = _window_ends(settings, request, version, since=None)
    last = max((end for end in ends if _aligned(end, request.policy)), default=None)
    if ends and (last is None or max(ends) > request.as_of - _fresh(request)):
        on_grid = "none does" if last is None else f"the last that does ends at {iso(last)}"
        return GateFailed(
            f"job {request.job} writes windows that do not end at multiples of "
            f"{request.policy.window_s:g} s, the policy's window_s: the last one ends at "
            f"{iso(max(ends))}, {on_grid}; start the streaming job with the policy's window_s, or "
            "set window_s to the job's, then start a new run"
        )
    if last is None:
        return GateFailed(
            f"job {request.job} has no metrics in the warehouse; start the streaming job, let it "
            f"run for {request.policy.statistics_period_s:g} s, then start a new run"
        )
    return GateFailed(
        f"job {request.job} is silent since {iso(last)}, the end of its last window; restart the "
        f"streaming job, let it run for {request.policy.statistics_period_s:g} s, then start a "
        "new run"
    )
