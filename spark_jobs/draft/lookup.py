"""Find a run's snapshot, its draft and the problem behind it, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import scaling as words
from ballast.contracts.errors import NotFound
from ballast.contracts.policy import ScalingPolicy, policy_from_json
from ballast.contracts.records import Draft, Snapshot
from ballast.contracts.settings import Settings
from ballast.store.plans import (
    read_acks,
    read_outcomes,
    read_routes,
    read_scaling,
    read_weights,
)
from ballast.store.snapshots import PARTS, RESOURCES, snapshot_of_run
from ballast.store.tables import Filter, ensure_tables, read_rows, table_exists
from solvers.collocate.target_memory import TargetMemory
from spark_jobs.draft.problem import Row
from spark_jobs.draft.round import Round, Route, round_of
from spark_jobs.draft.scaling_inputs import Looked

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
SERIES = ("operator_id", "key_group", "step", "step_s", "records_per_s", "busy_load_cores")
LOOKED_AT = (
    "plan_id", "subject", "subject_id", "action", "needed", "utilisation", "drain_rounds",
    "loads_json", "period_end_at", "decided_at",
)  # fmt: skip
"""Columns of plans.scaling that later rounds look at; texts of reasons are not among them."""


def find_snapshot(settings: Settings, job: str, run_id: str) -> Snapshot:
    """The snapshot that ``condense`` took for the run."""
    snapshot = snapshot_of_run(settings, job, run_id)
    if snapshot is None:
        raise NotFound(
            f"run {run_id} of job {job} has no snapshot",
            value=run_id,
            remedy=f"run `condense --job {job} --run-id '{run_id}'` first",
        )
    return snapshot


def find_draft(settings: Settings, snapshot: Row) -> Draft | None:
    """The draft that ``solve`` made from the snapshot, if it has."""
    return _first_draft(
        settings, snapshot["job"], run_id=snapshot["run_id"], snapshot_id=snapshot["snapshot_id"]
    )


def required_draft(settings: Settings, snapshot: Row) -> Draft:
    """The draft that ``solve`` made from the snapshot, or an error that says to make one."""
    draft = find_draft(settings, snapshot)
    if draft is None:
        job, run_id = snapshot["job"], snapshot["run_id"]
        raise NotFound(
            f"run {run_id} of job {job} has no draft",
            value=run_id,
            remedy=f"run `solve --job {job} --run-id '{run_id}'` first",
        )
    return draft


def read_round(settings: Settings, snapshot: Row) -> Round:
    """The problem that the snapshot states, and what its plan is for."""
    where = [("snapshot_id", "=", snapshot["snapshot_id"])]
    key_groups, nodes, traffic = (
        read_rows(settings, f"snapshots.{part}", job=snapshot["job"], where=where) for part in PARTS
    )
    policy = policy_from_json(snapshot["policy_json"])
    outcomes = read_outcomes(settings, snapshot["job"])
    key_pairs = None
    if snapshot["key_pairs_table_version"] is not None:
        key_pairs = read_rows(settings, "snapshots.key_pairs", job=snapshot["job"], where=where)
    routes = routes_in_force(settings, snapshot)
    plan_id = snapshot.get("applied_plan_id")
    in_force = read_scaling(settings, snapshot["job"], plan_id) if plan_id else []
    connections: list[Row] = []
    if snapshot.get("connections_table_version") is not None:
        rows = read_rows(settings, "snapshots.connections", job=snapshot["job"], where=where)
        connections = rows.to_pylist()
    # The head's: regions take up the head by themselves, also one that the operators refused.
    head_id = snapshot["head_plan_id"]
    weights = read_weights(settings, snapshot["job"], head_id) if head_id else []
    return round_of(
        snapshot, policy, key_groups, nodes, traffic, outcomes, key_pairs, routes, in_force,
        connections, weights, read_remembered(settings, snapshot),
    )  # fmt: skip


def read_remembered(settings: Settings, snapshot: Row) -> list[tuple[datetime, pa.Table]]:
    """Key pairs of the earlier snapshots that this one remembers, with the ends of their periods,
    oldest first; none of a snapshot of earlier versions."""
    wanted = list(snapshot.get("remembered_snapshot_ids") or ())
    if not wanted:
        return []
    job, where = snapshot["job"], [("snapshot_id", "in", wanted)]
    columns = ["snapshot_id", "period_end_at"]
    rows = read_rows(settings, "snapshots.snapshots", job=job, where=where, columns=columns)
    ends = {row["snapshot_id"]: row["period_end_at"] for row in rows.to_pylist()}
    gone = [snapshot_id for snapshot_id in wanted if snapshot_id not in ends]
    if gone:
        raise NotFound(
            f"snapshot {snapshot['snapshot_id']} of job {job} remembers {', '.join(gone)}, which "
            "is gone", value=gone[0], remedy="start a new run",
        )  # fmt: skip
    return [
        (
            ends[each],
            read_rows(settings, "snapshots.key_pairs", job=job, where=[("snapshot_id", "=", each)]),
        )
        for each in wanted
    ]


def read_looked(settings: Settings, snapshot: Row) -> Looked:
    """What scaling looks at: the snapshot's series and sources, and what earlier rounds did.

    Rows and events count that were there when the snapshot was taken, so that a retry sees the
    same; and of rows that tables keep for ten years no more than what scaling remembers.
    """
    job = snapshot["job"]
    where = [("snapshot_id", "=", snapshot["snapshot_id"])]
    ensure_tables(settings, ["snapshots.load_series", "snapshots.sources", "plans.scaling"])
    parts = {
        part: read_rows(settings, f"snapshots.{part}", job=job, where=where)
        for part in ("sources", "key_groups", "traffic")
    }
    loads = [resource.load for resource in RESOURCES.values()]
    series = read_rows(
        settings, "snapshots.load_series", job=job, where=where, columns=[*SERIES, *loads]
    )
    earlier, since = _earlier_scaling(settings, snapshot)
    return Looked(
        series,
        **parts,
        earlier=earlier,
        published=_published_plans(settings, snapshot, since),
        unchanged=_unchanged_drafts(settings, job, since),
    )


def _earlier_scaling(settings: Settings, snapshot: Row) -> tuple[list[Row], datetime]:
    """Rows of the rounds that are remembered, and since when; those of the plan in force as well.

    Rounds may have been further apart than the policy says; then what lies further back is read.
    """
    job, taken_at = snapshot["job"], snapshot["created_at"]
    scaling = policy_from_json(snapshot["policy_json"]).scaling
    rows, since = pa.table({}), taken_at
    for since in reaches(scaling, taken_at):
        where = [
            ("decided_at", ">=", since),
            ("decided_at", "<=", taken_at),
            ("subject", "in", [words.CLUSTER, words.NODE]),
        ]
        rows = read_rows(settings, "plans.scaling", job=job, where=where, columns=LOOKED_AT)
        if scaling and pc.count_distinct(rows["period_end_at"]).as_py() >= scaling.memory_rounds:
            break
    found: list[Row] = rows.to_pylist()
    in_force = snapshot.get("applied_plan_id")
    if in_force and all(row["plan_id"] != in_force for row in found):
        found += read_scaling(settings, job, in_force)
    return found, since


def reaches(scaling: ScalingPolicy | None, taken_at: datetime) -> Iterator[datetime]:
    """How far back to look for the rounds that scaling remembers, one after the other.

    Where nodes are paid for in periods their first moments count, however long ago. Where nothing
    is scaled any more, the rounds of a drain alone do.
    """
    given = scaling or ScalingPolicy()
    if given.billing_s is None:
        usual = timedelta(seconds=given.memory_rounds * given.interval_s)
        for times in (2, 32):
            yield taken_at - min(times * usual, taken_at - LONG_AGO)
            if scaling is None:
                return
    yield LONG_AGO


def _published_plans(settings: Settings, snapshot: Row, since: datetime) -> set[str]:
    """Plans that came into force in that time; the one in force did, whenever that was."""
    in_force = snapshot.get("applied_plan_id")
    span = [("at", ">=", since), ("at", "<=", snapshot["created_at"])]
    events = ("event", "in", ["published", "rolled_back"])
    found = _plan_ids(settings, "plans.log", snapshot["job"], [events, *span])
    return found | ({in_force} if in_force else set())


def _unchanged_drafts(settings: Settings, job: str, since: datetime) -> set[str]:
    where = [("status", "=", "unchanged"), ("created_at", ">=", since)]
    return _plan_ids(settings, "plans.plans", job, where)


def _plan_ids(settings: Settings, table: str, job: str, where: Sequence[Filter]) -> set[str]:
    if not table_exists(settings, table):
        return set()
    rows = read_rows(settings, table, job=job, where=where, columns=["plan_id"])
    return set(rows["plan_id"].to_pylist())


def routes_in_force(settings: Settings, snapshot: Row) -> list[Route]:
    """Routes of the plan that the snapshot's newest window ran under.

    Not the head's: a version that the job refused is the head, but not what it does.
    """
    plan_id = snapshot.get("applied_plan_id") or _acknowledged_plan(settings, snapshot)
    return read_routes(settings, snapshot["job"], plan_id) if plan_id else []


def _acknowledged_plan(settings: Settings, snapshot: Row) -> str | None:
    """The plan in force by the job's word: snapshots of earlier versions do not name it."""
    applied = [
        ack["plan_id"]
        for ack in read_acks(settings, snapshot["job"])
        if ack["status"] == "applied"
        and ack["version"] <= snapshot["head_version"]
        and ack["acked_at"] <= snapshot["created_at"]
    ]
    return applied[-1] if applied else None


def target_in_force(settings: Settings, snapshot: Row) -> TargetMemory | None:
    """The placement that the rounds before the snapshot were walking to, if they were.

    As the newest draft since the head left it: a round that changed nothing is never the head, and
    the target is a round older by it nevertheless.
    """
    drafts = _drafts_since_head(settings, snapshot)
    newest = max(drafts, key=lambda draft: draft["created_at"], default=None)
    found = newest or _head_plan(settings, snapshot)
    if not found or not found["target_json"]:
        return None
    return TargetMemory.from_json(found["target_json"])


def _head_plan(settings: Settings, snapshot: Row) -> Draft | None:
    plan_id = snapshot["head_plan_id"]
    return _first_draft(settings, snapshot["job"], plan_id=plan_id) if plan_id else None


def _drafts_since_head(settings: Settings, snapshot: Row) -> list[Row]:
    """Drafts with a target against the snapshot's head, from before the snapshot was taken: a
    retry then sees the same."""
    if not table_exists(settings, "plans.plans"):
        return []
    where = [
        ("parent_version", "=", snapshot["head_version"]),
        ("created_at", "<", snapshot["created_at"]),
    ]
    columns = ["created_at", "target_json"]
    found = read_rows(settings, "plans.plans", job=snapshot["job"], where=where, columns=columns)
    return [row for row in found.to_pylist() if row["target_json"]]


def read_content(
    settings: Settings, draft: Row
) -> tuple[pa.Table, list[Route], list[Row], list[Row]]:
    """The rows of plans.assignments of a draft, its routes, its scaling and its weights."""
    where = [("plan_id", "=", draft["plan_id"])]
    assignments = read_rows(settings, "plans.assignments", job=draft["job"], where=where)
    job, plan_id = draft["job"], draft["plan_id"]
    routes, scaling = read_routes(settings, job, plan_id), read_scaling(settings, job, plan_id)
    return assignments, routes, scaling, read_weights(settings, job, plan_id)


def _first_draft(settings: Settings, job: str, **where: str) -> Draft | None:
    """The oldest draft of a job that has these values."""
    if not table_exists(settings, "plans.plans"):
        return None
    filters = [(column, "=", value) for column, value in where.items()]
    rows = read_rows(settings, "plans.plans", job=job, where=filters).to_pylist()
    drafts = [Draft.from_row(row) for row in rows]
    return min(drafts, key=lambda draft: draft.created_at, default=None)
