"""Read what ``check_invariants`` judges, in an order that is safe beside publishers.

The log before the heads, for a head is committed before its row in the log; the heads and their
history from one version of the table; what the head names last, for it was written first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable

from ballast.contracts.errors import NotFound
from ballast.contracts.records import Head
from ballast.contracts.regions import weighted
from ballast.contracts.scaling import scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import (
    read_assignment,
    read_log,
    read_plan,
    read_routes,
    read_scaling,
    read_weights,
)
from ballast.store.tables import open_table, rows_of, table_exists
from spark_jobs.publication.heads import HEADS
from spark_jobs.upkeep.invariants import PUBLISHED, JobState, Publication
from spark_jobs.warehouse.plan_log import LOG


def jobs_with_plans(settings: Settings) -> list[str]:
    """Jobs that have, or had, a head or a row in the log."""
    jobs = {
        partition["job"]
        for table in (HEADS, LOG)
        if table_exists(settings, table)
        for partition in open_table(settings, table).partitions()
    }
    if table_exists(settings, HEADS):
        jobs |= set(read_history(open_table(settings, HEADS)))
    return sorted(jobs)


def read_state(settings: Settings, job: str) -> JobState:
    """What is to be judged of a job."""
    logged = [
        Publication(row["version"], row["plan_id"], row["run_id"], row["at"])
        for row in read_log(settings, job)
        if row["event"] in PUBLISHED and row["version"] is not None
    ]
    if not table_exists(settings, HEADS):
        return JobState(job, logged, [], [])
    table = open_table(settings, HEADS)
    heads = [Head(**row) for row in rows_of(table, job).to_pylist()]
    state = JobState(job, logged, heads, read_history(table).get(job, []))
    head = state.head
    if head is None:
        return state
    content = [
        (row["operator_id"], row["key_group"], row["node_id"])
        for row in read_assignment(settings, job, head.plan_id)
    ]
    return JobState(
        job, logged, heads, state.history, _plan_or_none(settings, head), content,
        read_routes(settings, job, head.plan_id),
        scaled(read_scaling(settings, job, head.plan_id)),
        weighted(read_weights(settings, job, head.plan_id)),
    )  # fmt: skip


def read_history(heads: DeltaTable) -> dict[str, list[Publication]]:
    """What each commit of plans.heads put in force, by job, the oldest first.

    Commits without a mark are not of ``publish``: maintenance, and the table's creation.
    """
    found: dict[str, list[Publication]] = defaultdict(list)
    for entry in reversed(heads.history()):
        mark = _mark_of(entry)
        if mark is not None:
            at = datetime.fromtimestamp(entry["timestamp"] / 1000, UTC)
            said = Publication(mark["version"], mark["plan_id"], mark["run_id"], at)
            found[mark["job"]].append(said)
    return found


def _mark_of(entry: Any) -> Any | None:
    try:
        mark = json.loads(entry.get("userMetadata") or "null")
    except ValueError:
        return None
    wanted = {"job", "version", "plan_id", "run_id"}
    return mark if isinstance(mark, dict) and wanted <= mark.keys() else None


def _plan_or_none(settings: Settings, head: Head) -> Any | None:
    try:
        return read_plan(settings, head.job, head.plan_id)
    except NotFound:
        return None
