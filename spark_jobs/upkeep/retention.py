"""What must stay of a job, whatever its age: pure functions on the rows of its plans and snapshots.

A plan refers to its snapshot and to its content. What is in force, what may be put in force again
and what may still be solved or reviewed is kept with everything it refers to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from ballast.contracts.records import Head
from ballast.contracts.tables import TABLES, Table

Row = Any  # TRANSITION: typed records take its place
PUBLISHED = ("published", "rolled_back")
# ``measure`` looks through two statistics periods; one more is for a run that is late.
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
class JobFacts:
    """What is known of a job's plans; read before anything is removed."""

    job: str
    head: Head | None
    plans: Sequence[Row]
    log: Sequence[Row]
    snapshots: Sequence[Row]

    @property
    def version(self) -> int:
        """The version in force; 0 before the first."""
        return self.head.version if self.head else 0

    @property
    def published_plans(self) -> set[str]:
        """Plans that are, or once were, in force: any of them can be rolled back to."""
        ids = {row["plan_id"] for row in self.log if row["event"] in PUBLISHED}
        return ids | ({self.head.plan_id} if self.head else set())


def cutoff(table: Table, now: datetime) -> datetime:
    """Rows of the table from before this time have outlived its retention."""
    return now - timedelta(days=table.retention_days)


def expired_plans(facts: JobFacts, now: datetime) -> list[str]:
    """Plans that nobody can need any more, oldest first.

    Kept are: the head's plan, drafts that may still replace it, and what was drafted or came into
    force within the retention.
    """
    since = cutoff(TABLES["plans.plans"], now)
    recent = {row["plan_id"] for row in facts.log if row["at"] >= since}
    kept = recent | _live_plans(facts) | ({facts.head.plan_id} if facts.head else set())
    rows = sorted(facts.plans, key=lambda row: row["created_at"])
    # A plan may have been drafted by two runs: the youngest row of it counts.
    young = {row["plan_id"] for row in rows if row["created_at"] >= since}
    return list(dict.fromkeys(r["plan_id"] for r in rows if r["plan_id"] not in kept | young))


def expired_snapshots(facts: JobFacts, now: datetime) -> list[str]:
    """Snapshots that no plan needs any more, oldest first.

    A plan in force is measured against its snapshot, one that is rolled back to as well; the
    newest snapshot has the last known loads of nodes that die. Snapshots whose statistics of keys
    one that is kept remembers are kept with it: its plan is verified by them.
    """
    since = cutoff(TABLES["snapshots.snapshots"], now)
    gone = set(expired_plans(facts, now))
    needed = (facts.published_plans - gone) | _live_plans(facts)
    kept = {row["snapshot_id"] for row in facts.plans if row["plan_id"] in needed}
    kept |= {row["snapshot_id"] for row in facts.snapshots if row["created_at"] >= since}
    newest = _newest(facts.snapshots)
    kept |= {newest["snapshot_id"]} if newest else set()
    kept |= {
        remembered
        for row in facts.snapshots
        if row["snapshot_id"] in kept
        for remembered in row.get("remembered_snapshot_ids") or ()
    }
    rows = sorted(facts.snapshots, key=lambda row: row["created_at"])
    return [row["snapshot_id"] for row in rows if row["snapshot_id"] not in kept]


def pinned_versions(facts: JobFacts, table: str) -> set[int]:
    """Versions of a table of metrics that a snapshot was read from which may still be used.

    That is one taken against the version in force, with a draft that would change something or
    without a draft as yet.
    """
    column = PINS.get(table)
    if column is None:
        return set()
    pinned = {row[column] for row in facts.snapshots if _is_live(facts, row)}
    return {version for version in pinned if version is not None}


def first_date_kept(facts: JobFacts, table: Table, now: datetime) -> date:
    """Windows from before this date may go: older than the retention, and than what runs read."""
    newest = _newest(facts.snapshots)
    period_s = json.loads(newest["policy_json"])["statistics_period_s"] if newest else 0.0
    return min(cutoff(table, now), now - PERIODS_KEPT * timedelta(seconds=period_s)).date()


def _live_plans(facts: JobFacts) -> set[str]:
    """Drafts that may still be put in force: made against the version that is."""
    return {
        row["plan_id"]
        for row in facts.plans
        if row["parent_version"] == facts.version and row["status"] != "unchanged"
    }


def _is_live(facts: JobFacts, snapshot: Row) -> bool:
    statuses = [
        row["status"] for row in facts.plans if row["snapshot_id"] == snapshot["snapshot_id"]
    ]
    changes = not statuses or any(status != "unchanged" for status in statuses)
    return bool(snapshot["head_version"] == facts.version and changes)


def _newest(snapshots: Sequence[Row]) -> Row | None:
    return max(snapshots, key=lambda row: (row["period_end_at"], row["created_at"]), default=None)
