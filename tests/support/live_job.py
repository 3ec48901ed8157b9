"""A job for a real pipeline: a version in force, and windows whose load differs from its plan.

These are the rows of metrics and acknowledgements that a streaming job writes; the pipeline writes
all other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head
from ballast.contracts.review import ReviewPolicy
from ballast.contracts.settings import Settings
from ballast.store.plans import read_assignment
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append
from spark_jobs.publication.publisher import publish_plan
from tests.support.metrics import write_windows
from tests.support.snapshots import uneven, write_draft

WINDOWS = 8
HEAVY_MS, LIGHT_MS = 18_000.0, 6_000.0


def first_version(settings: Settings, policy: JobPolicy, run_id: str = "manual__first") -> Head:
    """Put a version in force, under a policy without review."""
    ensure_tables(settings)
    automatic = policy.model_copy(update={"review": ReviewPolicy()})
    at = datetime.now(UTC) - timedelta(hours=1)
    write_draft(settings, automatic, run_id, placement=uneven(policy), at=at, seconds=0.2)
    head = publish_plan(settings, policy.job, run_id, now=at)
    assert head is not None
    return head


def placement_of(settings: Settings, head: Head) -> dict[tuple[str, int], str]:
    """The placement of the version."""
    rows = read_assignment(settings, head.job, head.plan_id)
    return {(row.operator_id, row.key_group): row.node_id for row in rows}


def take_up(settings: Settings, head: Head, *, batch: int = 0, at: datetime | None = None) -> None:
    """Write the job's acknowledgement that it applied the version."""
    figures = {"batch_id": batch, "moved_key_groups": 4, "bytes_moved": 4000, "pause_ms": 40.0}
    append(settings, "plans.acks", [
        {"job": head.job, "version": head.version, "plan_id": head.plan_id, "status": status,
         "reason": "", "acked_at": at or datetime.now(UTC), **figures}
        for status in ("accepted", "applied")
    ])  # fmt: skip


def windows_that_do_not_fit(settings: Settings, policy: JobPolicy, head: Head) -> datetime:
    """Write windows up to now under the version; the first node has most of the load."""
    placed = placement_of(settings, head)
    # Windows begin at multiples of their length; a window with another begin is a bad row.
    end = datetime.now(UTC).timestamp() // policy.window_s * policy.window_s
    start = datetime.fromtimestamp(end - policy.window_s * WINDOWS, UTC)
    take_up(settings, head, at=start)
    return write_windows(
        settings, policy, start, WINDOWS, nodes=placed, plan_version=head.version,
        loads=_heavy_on(policy.nodes[0].id, placed),
    )  # fmt: skip


def _heavy_on(node: str, placed: Mapping[tuple[str, int], str]) -> Any:
    def load(operator: str, group: int, _window: int) -> float:
        return HEAVY_MS if placed[operator, group] == node else LIGHT_MS

    return load
