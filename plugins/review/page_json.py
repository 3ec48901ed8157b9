"""The JSON objects of the review page, from the read model."""

from __future__ import annotations

from typing import Any

from ballast.contracts.json_values import json_value
from ballast.contracts.log_events import DRAFTED
from ballast.contracts.plan_text import plan_reason
from ballast.contracts.planning_stop import PlanningState
from ballast.contracts.records import AssignedKeyGroup, DraftSummary, field_names
from ballast.readmodel.changes import node_plan, weight_rows
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.noise import JobNoise
from ballast.readmodel.placement import NodeLoads, NodeUtilisation
from ballast.readmodel.plans import (
    JobSummary,
    PlanSummary,
    RefusalEntry,
    VersionSummary,
    plan_detail,
)
from ballast.readmodel.promises import PromiseCounts, PromisedFigure

Json = dict[str, Any]
MOVE_COLUMNS = ("operator_id", "key_group", "previous_node_id", "node_id", "state_bytes")
DRAFT_COLUMNS = ("plan_id", "run_id", "created_at", "status", "moves", "bytes")


def job_json(summary: JobSummary) -> Json:
    """Return the JSON of a job for the list of jobs and the top of its page."""
    return {
        "job": summary.job,
        "version": summary.version,
        "plan_id": summary.plan_id,
        "published_at": summary.published_at,
        "take_up": summary.ack.status if summary.ack else None,
        "load_distance": figure_json(summary.load_distance),
        "plans": summary.plans,
        "no_change": _no_change_json(summary.no_change),
        "last_event": summary.last_event,
        "last_refusal": _refusal_json(summary.last_refusal),
        "planning": planning_json(summary.planning),
    }


def planning_json(state: PlanningState) -> Json:
    """Return whether a job plans by itself; if not, since when and why."""
    return {
        "is_stopped": state.is_stopped,
        "since": state.since,
        "reason": state.reason,
        "broken_versions": state.versions,
    }


def _refusal_json(refusal: RefusalEntry | None) -> Json | None:
    if refusal is None:
        return None
    return refusal.entry.to_row() | {"over_since": refusal.over_since}


def _no_change_json(draft: DraftSummary | None) -> Json | None:
    """The verdict of the newest run, if it is that nothing changes."""
    if draft is None:
        return None
    return {"plan_id": draft.plan_id, "at": draft.created_at, "reason": plan_reason(draft)}


def figure_json(figure: PromisedFigure | None) -> Json | None:
    """A figure with its numbers, for pictures, and its texts, for tables."""
    if figure is None:
        return None
    texts = {
        "before_text": figure.before_text,
        "promised_text": figure.promised_text,
        "measured_text": figure.measured_text,
        "last_measured_text": figure.last_measured_text,
    }
    return {**json_value(figure), **texts}


def promises_json(counts: PromiseCounts) -> Json:
    """How many versions were measured inside of their interval."""
    return {**json_value(counts), "measured": counts.measured, "text": counts.text}


def noise_json(noise: JobNoise) -> Json:
    """The noise of a job's newest snapshot."""
    resources = [
        json_value(row.noise) | {"nodes": row.nodes, "text": row.text} for row in noise.resources
    ]
    return {
        "snapshot_at": noise.snapshot_at,
        "resources": resources,
        "reason": noise.reason,
        "text": noise.text,
    }


def node_loads_json(loads: NodeLoads) -> Json:
    """The load per node of a plan."""
    resources = [
        {"resource": each.resource, "nodes": [_node_json(node) for node in each.nodes]}
        for each in loads.resources
    ]
    return {**json_value(loads), "resources": resources}


def _node_json(node: NodeUtilisation) -> Json:
    texts = {"promised_text": node.promised_text, "measured_text": node.measured_text}
    return {**json_value(node), **texts}


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
        "load_distance": figure_json(summary.load_distance),
        "moves": plan.moves if plan else None,
        "bytes": plan.bytes if plan else None,
    }


def draft_json(summary: PlanSummary) -> Json:
    """Return the JSON of a plan that was never in force."""
    last = summary.last_event
    return {name: getattr(summary.plan, name) for name in DRAFT_COLUMNS} | {
        "load_distance": figure_json(summary.load_distance),
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
        "load_distance": figure_json(detail.figures[0]),
        "figures": [figure_json(figure) for figure in detail.figures],
        "log": detail.log,
        "scaling": node_plan(history, plan),
        "weights": weight_rows(history, plan.plan_id),
    }


def move_json(move: AssignedKeyGroup) -> Json:
    """Return the JSON of a key group that a plan moves."""
    return {name: getattr(move, name) for name in MOVE_COLUMNS}
