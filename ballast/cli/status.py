"""``ballast status``: prints the state of a job in a few lines."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from ballast.cli.render import cell_text, to_json
from ballast.contracts.errors import NotFound
from ballast.contracts.planning_state import PlanningState
from ballast.contracts.records import LogEntry
from ballast.contracts.settings import check_job_name, load_settings
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.plans import JobSummary, job_summary, newest_window
from ballast.store.cache import TableCache


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "status", help="the state of a job", epilog="example: ballast status flights --json"
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=_status)


def _fields(summary: JobSummary, last_window: datetime | None) -> dict[str, Any]:
    """Return the lines of the command: the name and the value of each."""
    ack, plan, waiting = summary.ack, summary.plan, summary.waiting
    last, trouble = summary.last_event, summary.last_trouble
    return {
        "job": summary.job,
        "version": summary.version,
        "plan_id": summary.plan_id,
        "published_at": summary.published_at,
        "take_up": ack.status if ack else None,
        "taken_up_at_batch": ack.batch_id if ack else None,
        "take_up_reason": ack.reason or None if ack else None,
        "load_distance_before_pct": plan.load_distance_before_pct if plan else None,
        "load_distance_promised_pct": plan.load_distance_pct if plan else None,
        "load_distance_measured_pct": summary.load_distance_measured_pct,
        **_planning_fields(summary.planning),
        "waiting_plan_id": waiting.plan_id if waiting else None,
        "waiting_since": waiting.at if waiting else None,
        "waiting_reason": waiting.reason if waiting else None,
        "last_window_end_at": last_window,
        **_entry_fields("last_event", last),
        **_entry_fields("last_trouble", trouble.entry if trouble else None),
        "last_trouble_over_since": trouble.over_since if trouble else None,
    }


def _planning_fields(state: PlanningState) -> dict[str, Any]:
    """Whether the job plans by itself; if not, why, and what to do."""
    row = f"{len(state.broken)} of {state.stop_after}" if state.stop_after is not None else None
    return {
        "planning": "stopped" if state.is_stopped else "on",
        "planning_stopped_since": state.since,
        "planning_reason": state.reason or None,
        "broken_promises_in_a_row": row,
    }


def _entry_fields(name: str, entry: LogEntry | None) -> dict[str, Any]:
    return {
        name: entry.event if entry else None,
        f"{name}_at": entry.at if entry else None,
        f"{name}_reason": entry.reason if entry else None,
    }


def _status(args: argparse.Namespace) -> int:
    settings = load_settings()
    history = JobHistory(TableCache(settings), check_job_name(args.job))
    summary, last_window = job_summary(history), newest_window(history.cache, history.job)
    if history.head is None and not history.log and last_window is None:
        raise NotFound(
            f"warehouse {settings.warehouse} has no job {history.job!r}", value=history.job,
            remedy="start the streaming job, or set BALLAST_WAREHOUSE",
        )  # fmt: skip
    fields = _fields(summary, last_window)
    if args.json:
        print(to_json(fields))
        return 0
    width = max(len(name) for name in fields)
    for name, value in fields.items():
        print(f"{name.replace('_', ' ').ljust(width)}  {cell_text(value)}")
    return 0
