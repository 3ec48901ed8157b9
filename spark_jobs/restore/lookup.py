"""Read what a rollback needs: the earlier version, and the job as it is today. No JVM."""

from __future__ import annotations

from dataclasses import replace

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import policy_from_json
from ballast.contracts.records import Head, Snapshot, SnapshotNode
from ballast.contracts.settings import Settings
from ballast.store.plans import (
    read_assignment,
    read_head,
    read_log,
    read_plan,
    read_routes,
    read_scaling,
    read_splits,
    read_weights,
    versions_of,
)
from ballast.store.policies import current_policy
from ballast.store.snapshots import newest_snapshot
from ballast.store.tables import read_rows
from spark_jobs.draft.draft_tables import read_connections
from spark_jobs.publication.current_state import dead_workers
from spark_jobs.publication.region_workers import weight_conflicts
from spark_jobs.restore.earlier_version import RollbackContext, StoredVersion


def required_head(settings: Settings, job: str) -> Head:
    """The version in force.

    Raises:
        NotFound: the job has no version.
    """
    head = read_head(settings, job)
    if head is None:
        raise NotFound(f"job {job} has no version in force", value=job, remedy="publish one first")
    return head


def source_snapshot(settings: Settings, job: str) -> Snapshot:
    """The newest snapshot, which the snapshot of a rollback is derived from.

    Raises:
        NotFound: the job has no snapshot.
    """
    source = newest_snapshot(settings, job)
    if source is None:
        raise NotFound(
            f"job {job} has no snapshot, so nothing is known of its nodes", value=job,
            remedy=f"run reoptimize__{job} first",
        )  # fmt: skip
    return source


def read_version(settings: Settings, head: Head, version: int) -> StoredVersion:
    """The content of a version, without its splits: a rollback joins every key (ADR 73).

    Raises:
        NotFound: the job has no such version.
    """
    job = head.job
    versions = versions_of(read_log(settings, job), head)
    if version not in versions:
        raise NotFound(
            f"job {job} has no version {version}", value=version,
            allowed=f"{min(versions)} to {max(versions)}", remedy=f"see `ballast plans list {job}`",
        )  # fmt: skip
    return replace(_stored(settings, job, versions[version]), splits=())


def read_context(settings: Settings, head: Head, earlier: StoredVersion) -> RollbackContext:
    """The job as it is today, to compare an earlier version with."""
    job, source = head.job, source_snapshot(settings, head.job)
    policy = current_policy(settings, policy_from_json(source.policy_json))
    applied = source.applied_plan_id
    where = [("snapshot_id", "=", source.snapshot_id)]
    nodes = read_rows(settings, "snapshots.nodes", job=job, where=where).to_pylist()
    died = dead_workers(settings, job, source.period_start_at) if earlier.weights else {}
    return RollbackContext(
        head=head,
        in_force=_stored(settings, job, head.plan_id),
        source=source,
        policy=policy,
        applied_scaling=read_scaling(settings, job, applied) if applied else [],
        nodes=[SnapshotNode.from_row(row) for row in nodes],
        connections=read_connections(settings, source) if earlier.weights else [],
        weight_conflicts=tuple(weight_conflicts(policy, earlier.weights, died)),
    )


def _stored(settings: Settings, job: str, plan_id: str) -> StoredVersion:
    return StoredVersion(
        plan_id,
        read_plan(settings, job, plan_id).content_hash,
        read_assignment(settings, job, plan_id),
        read_routes(settings, job, plan_id),
        read_scaling(settings, job, plan_id),
        read_weights(settings, job, plan_id),
        read_splits(settings, job, plan_id),
    )
