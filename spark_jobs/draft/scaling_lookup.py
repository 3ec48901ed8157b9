"""Read what a scaling decision is made from: load series, sources, and what earlier rounds did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.log_events import ACK_APPLIED
from ballast.contracts.policy import ScalingPolicy, policy_from_json
from ballast.contracts.problem_columns import RESOURCES
from ballast.contracts.records import Snapshot
from ballast.contracts.scaling import CLUSTER, NODE, OPERATOR
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_scaling
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import Filter, read_rows, table_exists
from spark_jobs.draft.scaling_inputs import EarlierScaling, ScalingInputs

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
SERIES = ("operator_id", "key_group", "step", "step_s", "records_per_s", "busy_load_cores")
SCALING_COLUMNS = [each.name for each in fields(EarlierScaling)]
SCALING_PARTS = ("sources", "key_groups", "traffic")


def read_scaling_inputs(settings: Settings, snapshot: Snapshot) -> ScalingInputs:
    """The snapshot's series and sources, and what earlier rounds decided.

    Only rows from before the snapshot are read, so that a retry reads the same rows. Tables keep
    rows for ten years; only those within the memory of scaling are read.
    """
    job = snapshot.job
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    ensure_tables(settings, ["snapshots.load_series", "snapshots.sources", "plans.scaling"])
    parts = {
        part: read_rows(settings, f"snapshots.{part}", job=job, where=where)
        for part in SCALING_PARTS
    }
    loads = [resource.load for resource in RESOURCES.values()]
    series = read_rows(
        settings, "snapshots.load_series", job=job, where=where, columns=[*SERIES, *loads]
    )
    earlier, since = _earlier_scaling(settings, snapshot)
    return ScalingInputs(
        series,
        **parts,
        earlier=earlier,
        published=_published_plans(settings, snapshot, since),
        unchanged=_unchanged_drafts(settings, job, since),
        pauses=[
            ack
            for ack in read_acks(settings, job)
            if ack.status == ACK_APPLIED and ack.acked_at <= snapshot.created_at
        ],
    )


def _earlier_scaling(
    settings: Settings, snapshot: Snapshot
) -> tuple[list[EarlierScaling], datetime]:
    """Decisions of the remembered rounds and of the plan in force, and the first time that counts.

    Rounds may be further apart than the interval of the policy. Then older rows are read as well.
    """
    job, taken_at = snapshot.job, snapshot.created_at
    scaling = policy_from_json(snapshot.policy_json).scaling
    rows, since = pa.table({}), taken_at
    for since in memory_starts(scaling, taken_at):
        where = [
            ("decided_at", ">=", since),
            ("decided_at", "<=", taken_at),
            ("subject", "in", [CLUSTER, NODE, OPERATOR]),
        ]
        rows = read_rows(settings, "plans.scaling", job=job, where=where, columns=SCALING_COLUMNS)
        if scaling and pc.count_distinct(rows["period_end_at"]).as_py() >= scaling.memory_rounds:
            break
    found = [EarlierScaling(**row) for row in rows.to_pylist()]
    in_force = snapshot.applied_plan_id
    if in_force and all(row.plan_id != in_force for row in found):
        found += map(EarlierScaling.of, read_scaling(settings, job, in_force))
    return found, since


def memory_starts(scaling: ScalingPolicy | None, taken_at: datetime) -> Iterator[datetime]:
    """Times back to which rounds are read, the latest first, until enough rounds are found.

    If nodes are billed in periods, the start of every node counts, however long ago it was. If the
    policy does not scale any more, only the rounds of a drain count.
    """
    section = scaling or ScalingPolicy()
    if section.billing_s is None:
        usual = timedelta(seconds=section.memory_rounds * section.interval_s)
        for times in (2, 32):
            yield taken_at - min(times * usual, taken_at - LONG_AGO)
            if scaling is None:
                return
    yield LONG_AGO


def _published_plans(settings: Settings, snapshot: Snapshot, since: datetime) -> set[str]:
    """Plans that came into force since a time, and the plan in force."""
    in_force = snapshot.applied_plan_id
    span = [("at", ">=", since), ("at", "<=", snapshot.created_at)]
    events = ("event", "in", ["published", "rolled_back"])
    found = _plan_ids(settings, "plans.log", snapshot.job, [events, *span])
    return found | ({in_force} if in_force else set())


def _unchanged_drafts(settings: Settings, job: str, since: datetime) -> set[str]:
    where = [("status", "=", "unchanged"), ("created_at", ">=", since)]
    return _plan_ids(settings, "plans.plans", job, where)


def _plan_ids(settings: Settings, table: str, job: str, where: Sequence[Filter]) -> set[str]:
    if not table_exists(settings, table):
        return set()
    rows = read_rows(settings, table, job=job, where=where, columns=["plan_id"])
    return set(rows["plan_id"].to_pylist())
