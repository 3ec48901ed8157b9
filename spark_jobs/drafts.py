"""Find a run's snapshot, its draft and the problem behind it, without a JVM."""

from __future__ import annotations

import pyarrow as pa

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import policy_from_json
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_outcomes, read_routes
from ballast.store.snapshots import PARTS
from ballast.store.tables import read_rows, table_exists
from solvers.collocate.memory import TargetMemory
from spark_jobs.problems import Row
from spark_jobs.rounds import Round, Route, round_of


def find_snapshot(settings: Settings, job: str, run_id: str) -> Row:
    """The snapshot that ``condense`` took for the run."""
    snapshot = _first(settings, "snapshots.snapshots", job, run_id=run_id)
    if snapshot is None:
        raise NotFound(
            f"run {run_id} of job {job} has no snapshot",
            value=run_id,
            remedy=f"run `condense --job {job} --run-id '{run_id}'` first",
        )
    return snapshot


def find_draft(settings: Settings, snapshot: Row) -> Row | None:
    """The draft that ``solve`` made from the snapshot, if it has."""
    return _first(
        settings,
        "plans.plans",
        snapshot["job"],
        run_id=snapshot["run_id"],
        snapshot_id=snapshot["snapshot_id"],
    )


def required_draft(settings: Settings, snapshot: Row) -> Row:
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
    return round_of(snapshot, policy, key_groups, nodes, traffic, outcomes, key_pairs, routes)


def routes_in_force(settings: Settings, snapshot: Row) -> list[Route]:
    """Routes of the plan that the job followed when the snapshot was taken.

    By its own word: a version that it refused is the head, but not what it does.
    """
    applied = [
        ack
        for ack in read_acks(settings, snapshot["job"])
        if ack["status"] == "applied"
        and ack["version"] <= snapshot["head_version"]
        and ack["acked_at"] <= snapshot["created_at"]
    ]
    return read_routes(settings, snapshot["job"], applied[-1]["plan_id"]) if applied else []


def target_in_force(settings: Settings, snapshot: Row) -> TargetMemory | None:
    """The placement that the plan in force was walking to, if it was."""
    plan_id = snapshot["head_plan_id"]
    found = plan_id and _first(settings, "plans.plans", snapshot["job"], plan_id=plan_id)
    if not found or not found["target_json"]:
        return None
    return TargetMemory.from_json(found["target_json"])


def read_content(settings: Settings, draft: Row) -> tuple[pa.Table, list[Route]]:
    """The rows of plans.assignments of a draft, and its routes."""
    where = [("plan_id", "=", draft["plan_id"])]
    assignments = read_rows(settings, "plans.assignments", job=draft["job"], where=where)
    return assignments, read_routes(settings, draft["job"], draft["plan_id"])


def _first(settings: Settings, table: str, job: str, **where: str) -> Row | None:
    if not table_exists(settings, table):
        return None
    filters = [(column, "=", value) for column, value in where.items()]
    rows: list[Row] = read_rows(settings, table, job=job, where=filters).to_pylist()
    return min(rows, key=lambda row: row["created_at"], default=None)
