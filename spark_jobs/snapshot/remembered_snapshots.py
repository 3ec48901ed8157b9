"""Which earlier snapshots' key statistics are used beside those of the period. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class SnapshotPeriod:
    """The period of an earlier snapshot, and whether it has key statistics."""

    snapshot_id: str
    key_pairs_table_version: int | None
    period_start_at: datetime
    period_end_at: datetime
    created_at: datetime


def non_overlapping(snapshots: Sequence[SnapshotPeriod], most: int) -> tuple[str, ...]:
    """Ids of the newest snapshots with key statistics that share no window, oldest first.

    A window that counted twice would leak test data into the back-test. Of several snapshots of
    one period, for example those that a rollback is based on, the first taken is used.
    """
    with_keys = [s for s in snapshots if s.key_pairs_table_version is not None]
    chosen: list[SnapshotPeriod] = []
    for snapshot in sorted(with_keys, key=lambda s: (-s.period_end_at.timestamp(), s.created_at)):
        if not chosen or snapshot.period_end_at <= chosen[-1].period_start_at:
            chosen.append(snapshot)
    return tuple(snapshot.snapshot_id for snapshot in reversed(chosen[:most]))
