"""The tables of ``solve``: what a draft is made from, and drafts as they are stored.

A draft is written content and promises first, then the row of plans.plans that makes it a draft. A
run and a snapshot have one draft, however often the task is retried and wherever it was killed.
Needs no JVM.
"""

from __future__ import annotations

from ballast.contracts.errors import NotFound
from ballast.contracts.fault_points import fault_point
from ballast.contracts.policy import policy_from_json
from ballast.contracts.records import (
    ConnectionWindow,
    Draft,
    DraftSummary,
    Outcome,
    Promise,
    Snapshot,
    field_names,
)
from ballast.contracts.settings import Settings
from ballast.store.plans import (
    read_acks,
    read_outcomes,
    read_routes,
    read_scaling,
    read_splits,
    read_weights,
)
from ballast.store.snapshots import PARTS, read_noise, snapshot_of_run
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append_once, open_table, read_rows, table_exists
from solvers.collocate.target_memory import TargetMemory
from solvers.model.problem import DEAD
from spark_jobs.draft.assemble import AssembledDraft
from spark_jobs.draft.calibration import CALIBRATING_FIGURES
from spark_jobs.draft.content import PlanContent, route_rows, split_rows
from spark_jobs.draft.key_statistics import RememberedKeyPairs
from spark_jobs.draft.past_outcomes import VERSIONS_USED, PastPlans, first_outcomes
from spark_jobs.draft.round import Round, RoundInputs, round_of
from spark_jobs.program.run import progress

TABLES_WRITTEN = (
    "plans.assignments", "plans.routes", "plans.splits", "plans.scaling", "plans.weights",
    "plans.promises", "plans.plans",
)  # fmt: skip


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
    in_force = plan_in_force(settings, snapshot)
    return round_of(
        RoundInputs(
            snapshot=snapshot,
            policy=policy_from_json(snapshot.policy_json),
            key_groups=key_groups,
            nodes=nodes,
            traffic=traffic,
            outcomes=read_outcomes(settings, job, figures=CALIBRATING_FIGURES),
            key_pairs=key_pairs,
            routes=read_routes(settings, job, in_force) if in_force else [],
            splits=read_splits(settings, job, in_force) if in_force else [],
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


def plan_in_force(settings: Settings, snapshot: Snapshot) -> str | None:
    """The plan whose routes and splits the snapshot's newest window ran under; None before one.

    This may not be the head: a job does not follow a head that it refused.
    """
    return snapshot.applied_plan_id or _acknowledged_plan(settings, snapshot)


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
        read_splits(settings, job, plan_id),
    )


def write_draft(settings: Settings, made: AssembledDraft) -> None:
    """Write a draft. Rows that an earlier attempt wrote stay as they are."""
    draft, content = made.draft, made.content
    ensure_tables(settings, TABLES_WRITTEN)
    # One write for each plan id: two attempts that find the same plan share its rows. Rows of
    # another plan stay without a draft that names them.
    tables = {
        "plans.assignments": content.assignments,
        "plans.routes": route_rows(draft.job, draft.plan_id, content.routes),
        "plans.splits": split_rows(draft.job, draft.plan_id, content.splits),
        "plans.scaling": [row.to_row() for row in content.scaling],
        "plans.weights": [row.to_row() for row in content.weights],
        "plans.promises": [row.to_row() for row in made.promises],
    }
    for table, rows in tables.items():
        if len(rows):
            app_id = f"{table}:{draft.job}:{draft.plan_id}"
            append_once(settings, table, rows, app_id=app_id, app_version=1)
            progress.info("wrote %d rows of %s", len(rows), table)
        fault_point(f"solve.after_{table.removeprefix('plans.')}")
    app_id = f"plans.plans:{draft.job}:{draft.run_id}:{draft.snapshot_id}"
    append_once(settings, "plans.plans", [draft.to_row()], app_id=app_id, app_version=1)
    progress.info("wrote the draft")
    fault_point("solve.after_plan")


def _first_draft(settings: Settings, job: str, **where: str) -> Draft | None:
    """The oldest draft of a job that has these values."""
    if not table_exists(settings, "plans.plans"):
        return None
    filters = [(column, "=", value) for column, value in where.items()]
    rows = read_rows(settings, "plans.plans", job=job, where=filters).to_pylist()
    drafts = [Draft.from_row(row) for row in rows]
    return min(drafts, key=lambda draft: draft.created_at, default=None)
