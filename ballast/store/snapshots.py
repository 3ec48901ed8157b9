"""Reads snapshots: the one of a run or a time, its problem and the noise of its loads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import JobPolicy, policy_from_json
from ballast.contracts.problem_columns import (
    RESOURCES,
    Floats,
    NoiseColumns,
    ProblemColumns,
    load_series,
    noise_columns,
    noise_reason,
    problem_columns,
)
from ballast.contracts.records import Snapshot, SnapshotNoise
from ballast.contracts.settings import Settings
from ballast.store.tables import Filter, read_rows, table_exists

PARTS = ("key_groups", "nodes", "traffic")


def newest_snapshot(settings: Settings, job: str) -> Snapshot | None:
    """Return the job's snapshot of the latest period; None if the job has no snapshot."""
    return max(_snapshots(settings, job), key=_by_period, default=None)


def snapshot_of_run(settings: Settings, job: str, run_id: str) -> Snapshot | None:
    """Return the snapshot of a run; None if the run has none. A run writes at most one."""
    found = _snapshots(settings, job, ("run_id", "=", run_id))
    return min(found, key=lambda snapshot: snapshot.created_at, default=None)


def snapshot_of(settings: Settings, job: str, name: str) -> Snapshot:
    """Return the snapshot of a run, or the last one up to a time.

    Args:
        settings: where the warehouse is.
        job: the job.
        name: a run id, or a time such as ``2026-11-14T18:00`` (UTC unless it names a zone).

    Raises:
        NotFound: there is no such snapshot.
    """
    time = _time(name)
    if time is None:
        found = snapshot_of_run(settings, job, name)
        problem = f"run {name[:60]} of job {job} has no snapshot"
    else:
        up_to = _snapshots(settings, job, ("period_end_at", "<=", time))
        found = max(up_to, key=_by_period, default=None)
        problem = f"job {job} has no snapshot up to {time:%Y-%m-%d %H:%M:%S} UTC"
    if found is None:
        raise NotFound(
            problem, value=name, allowed=f"a run id of reoptimize__{job}, or a time such as "
            "2026-11-14T18:00 (UTC)", remedy=f"see `ballast plans list {job}` for runs and times",
        )  # fmt: skip
    return found


def _snapshots(settings: Settings, job: str, *where: Filter) -> list[Snapshot]:
    if not table_exists(settings, "snapshots.snapshots"):
        return []
    rows = read_rows(settings, "snapshots.snapshots", job=job, where=where).to_pylist()
    return [Snapshot.from_row(row) for row in rows]


def _by_period(snapshot: Snapshot) -> tuple[datetime, datetime]:
    return snapshot.period_end_at, snapshot.created_at


def _time(text: str) -> datetime | None:
    """Return an ISO time, in UTC where it names no zone; None if the text is not a time."""
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        # OverflowError: in UTC the time is before the first year or after the last.
        return None


@dataclass(frozen=True, eq=False)
class SnapshotProblem:
    """What a snapshot says of a job: policy, problem, and noise of the problem's loads."""

    policy: JobPolicy
    problem: ProblemColumns
    noise: NoiseColumns | None
    """None if it is not known; ``noise_reason`` says why."""
    noise_reason: str
    series: Floats | None = None
    """[key groups, resources, steps]: loads over time; None if the job's method needs none."""


def read_snapshot(settings: Settings, snapshot: Snapshot) -> SnapshotProblem:
    """Return the policy, the problem and the noise of a snapshot.

    Raises:
        InvalidInput: a capacity is missing, or a row names a node or key group that is missing.
    """
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    parts = [
        read_rows(settings, f"snapshots.{name}", job=snapshot.job, where=where) for name in PARTS
    ]
    policy = policy_from_json(snapshot.policy_json)
    rows = read_noise(settings, snapshot)
    key_groups, _, traffic = parts
    problem = problem_columns(policy, *parts)
    series = read_load_series(settings, snapshot, policy)
    return SnapshotProblem(
        policy,
        problem,
        noise_columns(policy, key_groups, traffic, rows),
        noise_reason(policy, key_groups, rows),
        None if series is None else load_series(problem, series),
    )


def read_load_series(settings: Settings, snapshot: Snapshot, policy: JobPolicy) -> pa.Table | None:
    """Return the rows of a snapshot's load series; None if snapshots of the job have none."""
    table = "snapshots.load_series"
    if not policy.has_load_series or not table_exists(settings, table):
        return None
    columns = ["operator_id", "key_group", "step", "step_s"]
    columns += [RESOURCES[name].load for name in policy.objective.resources]
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    return read_rows(settings, table, job=snapshot.job, where=where, columns=columns)


def read_noise(settings: Settings, snapshot: Snapshot) -> list[SnapshotNoise]:
    """Return the noise of a snapshot by resource; none for a snapshot of an earlier version."""
    if not table_exists(settings, SnapshotNoise.table):
        return []
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    rows = read_rows(settings, SnapshotNoise.table, job=snapshot.job, where=where)
    return [SnapshotNoise.from_row(row) for row in rows.to_pylist()]
