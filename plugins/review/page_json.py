"""The JSON objects of the review page, from the read model."""

from __future__ import annotations

from typing import Any

from ballast.contracts.log_events import DRAFTED
from ballast.contracts.records import AssignedKeyGroup, DraftSummary, field_names
from ballast.readmodel.changes import node_plan, weight_rows
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.plans import (
    JobSummary,
    PlanSummary,
    RefusalEntry,
    VersionSummary,
    plan_detail,
)

Json = dict[str, Any]
MOVE_COLUMNS = ("operator_id", "key_group", "previous_node_id", "node_id", "state_bytes")
DRAFT_COLUMNS = (
    "plan_id", "run_id", "created_at", "status", "load_distance_before_pct",
    "load_distance_pct", "moves", "bytes",
)  # fmt: skip


def job_json(summary: JobSummary) -> Json:
    """Return the JSON of a job for the list of jobs and the top of its page."""
    return {
        "job": summary.job,
        "version": summary.version,
        "plan_id": summary.plan_id,
        "published_at": summary.published_at,
        "take_up": summary.ack.status if summary.ack else None,
        **_load_distances(summary.plan, summary.load_distance_measured_pct),
        "plans": summary.plans,
        "last_event": summary.last_event,
        "last_refusal": _refusal_json(summary.last_refusal),
    }


def _refusal_json(refusal: RefusalEntry | None) -> Json | None:
    if refusal is None:
        return None
    return refusal.entry.to_row() | {"over_since": refusal.over_since}


def _load_distances(plan: DraftSummary | None, measured: float | None) -> Json:
    return {
        "load_distance_before_pct": plan.load_distance_before_pct if plan else None,
        "load_distance_promised_pct": plan.load_distance_pct if plan else None,
        "load_distance_measured_pct": measured,
    }


def version_json(summary: VersionSummary) -> Json:
    """Return the JSON of a version for a job's timeline."""
    event, plan = summary.event, summary.plan
    return {
        "version": summary.version,
        "in_force": summary.in_force,
        "plan_id": event.plan_id,
        "event": event.event,
        "at": event.at,
        "actor": event.actor,
        "reason": event.reason,
        "approved_by": summary.approved_by,
        "take_up": summary.ack.status if summary.ack else None,
        **_load_distances(plan, summary.load_distance_measured_pct),
        "moves": plan.moves if plan else None,
        "bytes": plan.bytes if plan else None,
    }


def draft_json(summary: PlanSummary) -> Json:
    """Return the JSON of a plan that was never in force."""
    last = summary.last_event
    return {name: getattr(summary.plan, name) for name in DRAFT_COLUMNS} | {
        "last_event": last.event if last else DRAFTED,
        "last_reason": last.reason if last else "",
    }


def plan_json(history: JobHistory, name: str) -> Json:
    """Return the JSON of a plan's page."""
    detail = plan_detail(history, name)
    plan = detail.plan
    return {
        "job": detail.job,
        "version": detail.version,
        "versions": detail.versions,
        "in_force": detail.in_force,
        "approved_by": detail.approved_by,
        # Without the long texts, which may be megabytes.
        "plan": {column: getattr(plan, column) for column in field_names(DraftSummary)},
        "why": detail.reason,
        "quality": detail.quality,
        "progress": detail.progress,
        "held_back": detail.held_back,
        "acks": detail.acks,
        "region_acks": detail.region_acks,
        "outcomes": detail.outcomes,
        "log": detail.log,
        "scaling": node_plan(history, plan),
        "weights": weight_rows(history, plan.plan_id),
    }


def move_json(move: AssignedKeyGroup) -> Json:
    """Return the JSON of a key group that a plan moves."""
    return {name: getattr(move, name) for name in MOVE_COLUMNS}
