"""Reads what ``check_invariants`` checks, in an order that is safe beside publishers.

The log is read before the heads, because a head is committed before its row in the log. The heads
and their history come from one version of the table. The head's plan is read last, because it was
written first.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

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
    read_splits,
    read_weights,
)
from ballast.store.tables import open_table, rows_of, table_exists
from spark_jobs.publication.heads import HEADS, HeadCommit
from spark_jobs.upkeep.invariants import PUBLISHED, JobState, Publication, StoredContent
from spark_jobs.warehouse.plan_log import LOG


def jobs_with_plans(settings: Settings) -> list[str]:
    """Jobs that have or had a head or a row in the log."""
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
    """Read the log, the head, its history and its plan."""
    logged = [
        Publication(entry.version, entry.plan_id, entry.run_id, entry.at)
        for entry in read_log(settings, job)
        if entry.event in PUBLISHED and entry.version is not None and entry.plan_id is not None
    ]
    if not table_exists(settings, HEADS):
        return JobState(job, logged, [], [])
    table = open_table(settings, HEADS)
    heads = [Head.from_row(row) for row in rows_of(table, job).to_pylist()]
    state = JobState(job, logged, heads, read_history(table).get(job, []))
    if state.head is None:
        return state
    return replace(state, plan=_read_stored_plan(settings, state.head))


def read_history(heads: DeltaTable) -> dict[str, list[Publication]]:
    """What each commit of plans.heads put in force, by job, oldest first.

    Commits of maintenance and of the table's creation publish nothing and are left out.
    """
    history: dict[str, list[Publication]] = defaultdict(list)
    for entry in reversed(heads.history()):
        commit = HeadCommit.from_json(entry.get("userMetadata"))
        if commit is not None:
            at = datetime.fromtimestamp(entry["timestamp"] / 1000, UTC)
            publication = Publication(commit.version, commit.plan_id, commit.run_id, at)
            history[commit.job].append(publication)
    return history


def _read_stored_plan(settings: Settings, head: Head) -> StoredContent:
    job, plan_id = head.job, head.plan_id
    return StoredContent(
        content_hash=_content_hash(settings, head),
        assignments=[
            (row.operator_id, row.key_group, row.node_id)
            for row in read_assignment(settings, job, plan_id)
        ],
        routes=read_routes(settings, job, plan_id),
        scaling=scaled(read_scaling(settings, job, plan_id)),
        weights=weighted(read_weights(settings, job, plan_id)),
        splits=read_splits(settings, job, plan_id),
    )


def _content_hash(settings: Settings, head: Head) -> str | None:
    try:
        return read_plan(settings, head.job, head.plan_id).content_hash
    except NotFound:
        return None
