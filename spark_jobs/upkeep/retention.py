"""What must stay of a job, whatever its age. Pure functions on the job's plans, log and snapshots.

A plan refers to its snapshot and its content. A plan that is in force, may be put in force again,
or may still be solved or reviewed stays with everything that it refers to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from ballast.contracts.records import Head
from ballast.contracts.tables import TABLES, Table

PUBLISHED = ("published", "rolled_back")
# ``measure`` reads two statistics periods; one more is for a run that is late.
PERIODS_KEPT = 3
PINS: Mapping[str, str] = {
    "metrics.key_groups": "key_groups_table_version",
    "metrics.nodes": "nodes_table_version",
    "metrics.traffic": "traffic_table_version",
    "metrics.key_pairs": "key_pairs_table_version",
    "metrics.sources": "sources_table_version",
    "metrics.connections": "connections_table_version",
}
"""Table of metrics -> column of snapshots.snapshots with the version of it that was read."""


@dataclass(frozen=True)
class StoredPlan:
    """The columns of plans.plans on which retention depends."""

    plan_id: str
    snapshot_id: str
    status: str
    parent_version: int
    created_at: datetime


@dataclass(frozen=True)
class LoggedEvent:
    """The columns of plans.log on which retention depends."""

    event: str
    version: int | None
    plan_id: str | None
    at: datetime


@dataclass(frozen=True)
class StoredSnapshot:
    """The columns of snapshots.snapshots on which retention depends."""

    snapshot_id: str
    head_version: int
    period_end_at: datetime
    created_at: datetime
    policy_json: str
    remembered_snapshot_ids: Sequence[str] = ()
    read_versions: Mapping[str, int] = field(default_factory=dict)
    """Table of metrics -> version of it that the snapshot was read from."""


@dataclass(frozen=True)
class JobFacts:
    """The plans, log and snapshots of a job; read before anything is removed."""

    job: str
    head: Head | None
    plans: Sequence[StoredPlan]
    log: Sequence[LoggedEvent]
    snapshots: Sequence[StoredSnapshot]

    @property
    def version(self) -> int:
        """The version in force; 0 before the first."""
        return self.head.version if self.head else 0

    @property
    def published_plans(self) -> set[str]:
        """Plans that are or were in force: a job can be rolled back to each of them."""
        ids = {entry.plan_id for entry in self.log if entry.event in PUBLISHED and entry.plan_id}
        return ids | self.head_plan

    @property
    def head_plan(self) -> set[str]:
        """The plan in force; empty before the first."""
        return {self.head.plan_id} if self.head else set()


def cutoff(table: Table, now: datetime) -> datetime:
    """Rows of the table from before this time are older than its retention."""
    return now - timedelta(days=table.retention_days)


def expired_plans(facts: JobFacts, now: datetime) -> list[str]:
    """Plans that may be removed, oldest first.

    The head's plan stays, drafts that may still replace it, and plans that were drafted or came
    into force within the retention.
    """
    since = cutoff(TABLES["plans.plans"], now)
    recent = {entry.plan_id for entry in facts.log if entry.at >= since}
    needed = recent | _live_plans(facts) | facts.head_plan
    plans = sorted(facts.plans, key=lambda plan: plan.created_at)
    # Two runs may have drafted the same plan: its youngest row counts.
    young = {plan.plan_id for plan in plans if plan.created_at >= since}
    return list(dict.fromkeys(p.plan_id for p in plans if p.plan_id not in needed | young))


def expired_snapshots(facts: JobFacts, now: datetime) -> list[str]:
    """Snapshots that may be removed, oldest first.

    The snapshots of plans that are or may come into force stay: their outcome is measured against
    them. The newest snapshot stays: it has the last known loads of nodes that die. A snapshot whose
    key statistics a needed snapshot uses stays with it: the plan is verified by them.
    """
    since = cutoff(TABLES["snapshots.snapshots"], now)
    plans = (facts.published_plans - set(expired_plans(facts, now))) | _live_plans(facts)
    needed = {plan.snapshot_id for plan in facts.plans if plan.plan_id in plans}
    needed |= {s.snapshot_id for s in facts.snapshots if s.created_at >= since}
    newest = _newest(facts.snapshots)
    needed |= {newest.snapshot_id} if newest else set()
    needed |= {
        remembered
        for snapshot in facts.snapshots
        if snapshot.snapshot_id in needed
        for remembered in snapshot.remembered_snapshot_ids
    }
    snapshots = sorted(facts.snapshots, key=lambda snapshot: snapshot.created_at)
    return [s.snapshot_id for s in snapshots if s.snapshot_id not in needed]


def pinned_versions(facts: JobFacts, table: str) -> set[int]:
    """Versions of a table of metrics that must stay readable.

    They are the versions from which a snapshot was read that may still be used: it was taken
    against the version in force, and has no draft yet or one that changes something.
    """
    return {
        snapshot.read_versions[table]
        for snapshot in facts.snapshots
        if table in snapshot.read_versions and _is_live(facts, snapshot)
    }


def first_date_kept(facts: JobFacts, table: Table, now: datetime) -> date:
    """Windows before this date may be removed: older than the retention and than any run reads."""
    newest = _newest(facts.snapshots)
    period_s = json.loads(newest.policy_json)["statistics_period_s"] if newest else 0.0
    return min(cutoff(table, now), now - PERIODS_KEPT * timedelta(seconds=period_s)).date()


def _live_plans(facts: JobFacts) -> set[str]:
    """Drafts that may still be published: made against the version in force."""
    return {
        plan.plan_id
        for plan in facts.plans
        if plan.parent_version == facts.version and plan.status != "unchanged"
    }


def _is_live(facts: JobFacts, snapshot: StoredSnapshot) -> bool:
    statuses = [p.status for p in facts.plans if p.snapshot_id == snapshot.snapshot_id]
    changes = not statuses or any(status != "unchanged" for status in statuses)
    return snapshot.head_version == facts.version and changes


def _newest(snapshots: Sequence[StoredSnapshot]) -> StoredSnapshot | None:
    return max(snapshots, key=lambda s: (s.period_end_at, s.created_at), default=None)
