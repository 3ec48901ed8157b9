"""Find a run's snapshot, its draft and the problem behind it, without a JVM."""

from __future__ import annotations

import pyarrow as pa

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.store.snapshots import read_snapshot
from ballast.store.tables import read_rows, table_exists
from solvers import Problem
from solvers.collocate.memory import TargetMemory
from spark_jobs.problems import Row


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


def read_problem(settings: Settings, snapshot: Row) -> tuple[JobPolicy, Problem]:
    """The policy as it was, and the problem that the snapshot states."""
    policy, columns = read_snapshot(settings, snapshot)
    return policy, Problem(**columns)


def target_in_force(settings: Settings, snapshot: Row) -> TargetMemory | None:
    """The placement that the plan in force was walking to, if it was."""
    plan_id = snapshot["head_plan_id"]
    found = plan_id and _first(settings, "plans.plans", snapshot["job"], plan_id=plan_id)
    if not found or not found["target_json"]:
        return None
    return TargetMemory.from_json(found["target_json"])


def read_content(settings: Settings, draft: Row) -> pa.Table:
    """The rows of plans.assignments of a draft."""
    where = [("plan_id", "=", draft["plan_id"])]
    return read_rows(settings, "plans.assignments", job=draft["job"], where=where)


def _first(settings: Settings, table: str, job: str, **where: str) -> Row | None:
    if not table_exists(settings, table):
        return None
    filters = [(column, "=", value) for column, value in where.items()]
    rows: list[Row] = read_rows(settings, table, job=job, where=filters).to_pylist()
    return min(rows, key=lambda row: row["created_at"], default=None)
