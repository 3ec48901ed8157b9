"""Read what a draft is made from, and drafts that were written. Needs no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import ScalingPolicy, policy_from_json
from ballast.contracts.problem_columns import RESOURCES
from ballast.contracts.records import (
    ConnectionWindow,
    Draft,
    DraftSummary,
    Outcome,
    Promise,
    Snapshot,
    field_names,
)
from ballast.contracts.scaling import CLUSTER, NODE
from ballast.contracts.settings import Settings
from ballast.store.plans import (
    read_acks,
    read_outcomes,
    read_routes,
    read_scaling,
    read_weights,
)
from ballast.store.snapshots import PARTS, read_noise, snapshot_of_run
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import Filter, open_table, read_rows, table_exists
from solvers.collocate.target_memory import TargetMemory
from solvers.model.problem import DEAD
from spark_jobs.draft.calibration import CALIBRATING_FIGURES
from spark_jobs.draft.content import PlanContent, Route
from spark_jobs.draft.key_statistics import RememberedKeyPairs
from spark_jobs.draft.past_outcomes import VERSIONS_USED, PastPlans, first_outcomes
from spark_jobs.draft.round import Round, RoundInputs, round_of
from spark_jobs.draft.scaling_inputs import EarlierScaling, ScalingInputs

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
SERIES = ("operator_id", "key_group", "step", "step_s", "records_per_s", "busy_load_cores")
SCALING_COLUMNS = [each.name for each in fields(EarlierScaling)]
SCALING_PARTS = ("sources", "key_groups", "traffic")


def find_snapshot(settings: Settings, job: str, run_id: str) -> Snapshot:
    """The snapshot that ``condense`` took for the run.

    Raises:
        NotFound: the run has no snapshot.
    """
    snapshot = snapshot_of_run(settings, job, run_id)
    if snapshot is None:
        raise NotFound(
            f"run {run_id} of job {job} has no snapshot",
            value=run_id,
            remedy=f"run `condense --job {job} --run-id '{run_id}'` first",
        )
    return snapshot


def find_draft(settings: Settings, snapshot: Snapshot) -> Draft | None:
    """The draft that ``solve`` made from the snapshot; None if there is none."""
    return _first_draft(
        settings, snapshot.job, run_id=snapshot.run_id, snapshot_id=snapshot.snapshot_id
    )


def required_draft(settings: Settings, snapshot: Snapshot) -> Draft:
    """The draft that ``solve`` made from the snapshot.

    Raises:
        NotFound: the snapshot has no draft.
    """
    draft = find_draft(settings, snapshot)
    if draft is None:
        job, run_id = snapshot.job, snapshot.run_id
        raise NotFound(
            f"run {run_id} of job {job} has no draft",
            value=run_id,
            remedy=f"run `solve --job {job} --run-id '{run_id}'` first",
        )
    return draft


def has_forced_moves(settings: Settings, snapshot: Snapshot) -> bool:
    """Whether a dead node has key groups in the snapshot, which every plan must move."""
    job, where = snapshot.job, [("snapshot_id", "=", snapshot.snapshot_id)]
    states = read_rows(settings, "snapshots.nodes", job=job, where=where,
                       columns=["node_id", "state"]).to_pylist()  # fmt: skip
    dead = {row["node_id"] for row in states if row["state"] == DEAD}
    held_by = read_rows(settings, "snapshots.key_groups", job=job, where=where, columns=["node_id"])
    return not dead.isdisjoint(held_by["node_id"].unique().to_pylist())


def read_round(settings: Settings, snapshot: Snapshot) -> Round:
    """Read everything that a plan of the snapshot is made from and verified against."""
    job = snapshot.job
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    key_groups, nodes, traffic = (
        read_rows(settings, f"snapshots.{part}", job=job, where=where) for part in PARTS
    )
    key_pairs = None
    if snapshot.key_pairs_table_version is not None:
        key_pairs = read_rows(settings, "snapshots.key_pairs", job=job, where=where)
    applied, head = snapshot.applied_plan_id, snapshot.head_plan_id
    return round_of(
        RoundInputs(
            snapshot=snapshot,
            policy=policy_from_json(snapshot.policy_json),
            key_groups=key_groups,
            nodes=nodes,
            traffic=traffic,
            outcomes=read_outcomes(settings, job, figures=CALIBRATING_FIGURES),
            key_pairs=key_pairs,
            routes=routes_in_force(settings, snapshot),
            scaling_in_force=read_scaling(settings, job, applied) if applied else [],
            connections=read_connections(settings, snapshot),
            # Weights of the head: regions follow it even if the operators refused it.
            weights_in_force=read_weights(settings, job, head) if head else [],
            remembered=read_remembered(settings, snapshot),
            noise=read_noise(settings, snapshot),
            past=read_past_plans(settings, snapshot),
        )
    )


def read_past_plans(settings: Settings, snapshot: Snapshot) -> PastPlans:
    """Outcomes, promises and figures of the newest versions before the snapshot.

    A version is measured by every run while it is in force. Only its first outcomes are kept.
    """
    job, tables = snapshot.job, (Outcome.table, Promise.table)
    if not all(table_exists(settings, table) for table in tables):
        return PastPlans()
    since = snapshot.head_version - VERSIONS_USED
    rows = read_rows(settings, Outcome.table, job=job, where=[("version", ">", since)])
    first = rows.group_by("version").aggregate([("measured_at", "min")])
    of_first = rows.join(
        first, ["version", "measured_at"], ["version", "measured_at_min"], "left semi"
    )
    outcomes = first_outcomes(
        [Outcome.from_row(row) for row in of_first.to_pylist()], snapshot.created_at
    )
    if not outcomes:
        return PastPlans()
    where = [("plan_id", "in", sorted({row.plan_id for row in outcomes}))]
    promises = read_rows(settings, Promise.table, job=job, where=where)
    columns = [c for c in field_names(DraftSummary) if c in _columns(settings, DraftSummary.table)]
    plans = read_rows(settings, DraftSummary.table, job=job, where=where, columns=columns)
    return PastPlans(
        outcomes,
        [Promise.from_row(row) for row in promises.to_pylist()],
        [DraftSummary.from_row(row) for row in plans.to_pylist()],
    )


def _columns(settings: Settings, table: str) -> list[str]:
    """The columns that the table has in this warehouse; one of an earlier version lacks some."""
    return [field.name for field in open_table(settings, table).schema().fields]


def read_connections(settings: Settings, snapshot: Snapshot) -> list[ConnectionWindow]:
    """The connections of ordered regions in a snapshot; empty if the policy had no region."""
    if snapshot.connections_table_version is None:
        return []
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    rows = read_rows(settings, "snapshots.connections", job=snapshot.job, where=where)
    return [ConnectionWindow.from_row(row) for row in rows.to_pylist()]


def read_remembered(settings: Settings, snapshot: Snapshot) -> list[RememberedKeyPairs]:
    """Key pairs of the earlier snapshots that this one remembers, oldest first.

    Raises:
        NotFound: an earlier snapshot has been deleted.
    """
    wanted = list(snapshot.remembered_snapshot_ids or ())
    if not wanted:
        return []
    job, where = snapshot.job, [("snapshot_id", "in", wanted)]
    columns = ["snapshot_id", "period_end_at"]
    rows = read_rows(settings, "snapshots.snapshots", job=job, where=where, columns=columns)
    ends = {row["snapshot_id"]: row["period_end_at"] for row in rows.to_pylist()}
    gone = [snapshot_id for snapshot_id in wanted if snapshot_id not in ends]
    if gone:
        raise NotFound(
            f"snapshot {snapshot.snapshot_id} of job {job} remembers {', '.join(gone)}, which "
            "is gone", value=gone[0], remedy="start a new run",
        )  # fmt: skip
    return [
        RememberedKeyPairs(
            ends[each],
            read_rows(settings, "snapshots.key_pairs", job=job, where=[("snapshot_id", "=", each)]),
        )
        for each in wanted
    ]


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
            ("subject", "in", [CLUSTER, NODE]),
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


def routes_in_force(settings: Settings, snapshot: Snapshot) -> list[Route]:
    """Routes of the plan that the snapshot's newest window ran under.

    This may not be the head: a job does not follow a head that it refused.
    """
    plan_id = snapshot.applied_plan_id or _acknowledged_plan(settings, snapshot)
    return read_routes(settings, snapshot.job, plan_id) if plan_id else []


def _acknowledged_plan(settings: Settings, snapshot: Snapshot) -> str | None:
    """The plan that the job applied last. Snapshots of earlier versions do not name it."""
    applied = [
        ack.plan_id
        for ack in read_acks(settings, snapshot.job)
        if ack.status == "applied"
        and ack.version <= snapshot.head_version
        and ack.acked_at <= snapshot.created_at
    ]
    return applied[-1] if applied else None


def target_in_force(settings: Settings, snapshot: Snapshot) -> TargetMemory | None:
    """The target placement of the rounds before the snapshot; None if they had none.

    It comes from the newest draft since the head. A draft that changed nothing never becomes the
    head, but the target has aged by its round.
    """
    text = _target_since_head(settings, snapshot)
    if text is None:
        head = _head_plan(settings, snapshot)
        text = head.target_json if head else None
    return TargetMemory.from_json(text) if text else None


def _head_plan(settings: Settings, snapshot: Snapshot) -> Draft | None:
    plan_id = snapshot.head_plan_id
    return _first_draft(settings, snapshot.job, plan_id=plan_id) if plan_id else None


def _target_since_head(settings: Settings, snapshot: Snapshot) -> str | None:
    """The target of the newest draft against the snapshot's head.

    Only drafts from before the snapshot count, so that a retry reads the same target.
    """
    if not table_exists(settings, "plans.plans"):
        return None
    where = [
        ("parent_version", "=", snapshot.head_version),
        ("created_at", "<", snapshot.created_at),
    ]
    columns = ["created_at", "target_json"]
    rows = read_rows(settings, "plans.plans", job=snapshot.job, where=where, columns=columns)
    found = [(row["created_at"], row["target_json"]) for row in rows.to_pylist()]
    return max(((at, target) for at, target in found if target), default=(None, None))[1]


def read_content(settings: Settings, draft: Draft) -> PlanContent:
    """The content of a draft, as it is stored."""
    job, plan_id = draft.job, draft.plan_id
    where = [("plan_id", "=", plan_id)]
    return PlanContent(
        read_rows(settings, "plans.assignments", job=job, where=where),
        read_routes(settings, job, plan_id),
        read_scaling(settings, job, plan_id),
        read_weights(settings, job, plan_id),
    )


def _first_draft(settings: Settings, job: str, **where: str) -> Draft | None:
    """The oldest draft of a job that has these values."""
    if not table_exists(settings, "plans.plans"):
        return None
    filters = [(column, "=", value) for column, value in where.items()]
    rows = read_rows(settings, "plans.plans", job=job, where=filters).to_pylist()
    drafts = [Draft.from_row(row) for row in rows]
    return min(drafts, key=lambda draft: draft.created_at, default=None)
