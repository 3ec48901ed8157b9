"""``ballast status``: prints the state of a job in a few lines."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ballast.cli.render import BAD, HEAD, measured_cell, pairs_table, print_json, styled
from ballast.cli.terminal import print_parts
from ballast.contracts.errors import NotFound
from ballast.contracts.plan_text import plan_reason
from ballast.contracts.planning_stop import PlanningState
from ballast.contracts.records import JobWindow, LogEntry
from ballast.contracts.settings import check_job_name, load_settings
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.noise import JobNoise, job_noise
from ballast.readmodel.plans import JobSummary, job_summary, newest_job_window, newest_window
from ballast.readmodel.promises import PromiseCounts, PromisedFigure, promise_counts
from ballast.store.cache import TableCache


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "status", help="the state of a job", epilog="example: ballast status flights --json"
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=_status)


@dataclass(frozen=True)
class _JobStatus:
    """What the command prints about a job."""

    summary: JobSummary
    last_window: datetime | None
    job_window: JobWindow | None
    promises: PromiseCounts
    noise: JobNoise


def _fields(status: _JobStatus) -> dict[str, Any]:
    """Return what the command prints as JSON."""
    summary = status.summary
    ack, waiting, no_change = summary.ack, summary.waiting, summary.no_change
    last, trouble = summary.last_event, summary.last_trouble
    return {
        "job": summary.job,
        "version": summary.version,
        "plan_id": summary.plan_id,
        "published_at": summary.published_at,
        "take_up": ack.status if ack else None,
        "taken_up_at_batch": ack.batch_id if ack else None,
        "take_up_reason": ack.reason or None if ack else None,
        **_load_distance_fields(summary.load_distance),
        **_planning_fields(summary.planning),
        "versions_with_interval": status.promises.measured,
        "versions_inside": status.promises.inside,
        "no_change": plan_reason(no_change) if no_change else None,
        "noise": status.noise,
        "waiting_plan_id": waiting.plan_id if waiting else None,
        "waiting_since": waiting.at if waiting else None,
        "waiting_reason": waiting.reason if waiting else None,
        "last_window_end_at": status.last_window,
        **_job_fields(status.job_window),
        **_entry_fields("last_event", last),
        **_entry_fields("last_trouble", trouble.entry if trouble else None),
        "last_trouble_over_since": trouble.over_since if trouble else None,
    }


def _job_fields(window: JobWindow | None) -> dict[str, Any]:
    """The state of the streaming job itself, also in windows in which nothing was measured."""
    return {
        "job_state": window.state if window else None,
        "job_state_at": window.window_end_at if window else None,
        "job_state_since": window.state_since_at if window else None,
        "executors": window.executors if window else None,
        "head_age_s": window.head_age_s if window else None,
    }


def _planning_fields(state: PlanningState) -> dict[str, Any]:
    """Whether the job plans by itself; if not, why, and what to do."""
    return {
        "planning": "stopped" if state.is_stopped else "on",
        "planning_stopped_since": state.since,
        "planning_reason": state.reason or None,
        "broken_promises_in_a_row": len(state.broken),
    }


def _load_distance_fields(figure: PromisedFigure | None) -> dict[str, Any]:
    return {
        "load_distance_before_pct": figure.before if figure else None,
        "load_distance_promised_pct": figure.expected if figure else None,
        "load_distance_low_pct": figure.low if figure else None,
        "load_distance_high_pct": figure.high if figure else None,
        "load_distance_measured_pct": figure.last_measured if figure else None,
        "load_distance_side": figure.last_side if figure else None,
        "no_interval_reason": (figure.reason or None) if figure else None,
    }


JSON_ONLY = (
    "load_distance_low_pct", "load_distance_high_pct", "load_distance_side",
    "versions_with_interval", "job_state_since",
)  # fmt: skip


def _lines(status: _JobStatus) -> dict[str, Any]:
    """Return what the command prints as text: the name and the value of each line."""
    figure = status.summary.load_distance
    texts = {
        "load_distance_before_pct": figure.before_text if figure else None,
        "load_distance_promised_pct": figure.promised_text if figure else None,
        "load_distance_measured_pct": measured_cell(figure.last_measured_text) if figure else None,
        "versions_inside": status.promises.text,
        "noise": status.noise.text,
        "job_state": status.job_window.text if status.job_window else None,
        "planning": styled("stopped", BAD) if status.summary.planning.is_stopped else "on",
    }
    # A value with its unit needs no unit in its name.
    return {
        name.removesuffix("_pct"): texts.get(name, value)
        for name, value in _fields(status).items()
        if name not in JSON_ONLY
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
    status = _JobStatus(
        summary=job_summary(history),
        last_window=newest_window(history.cache, history.job),
        job_window=newest_job_window(history.cache, history.job, datetime.now(UTC)),
        promises=promise_counts(history),
        noise=job_noise(history),
    )
    if history.head is None and not history.log and status.last_window is None:
        raise NotFound(
            f"warehouse {settings.warehouse} has no job {history.job!r}", value=history.job,
            remedy="start the streaming job, or set BALLAST_WAREHOUSE",
        )  # fmt: skip
    if args.json:
        print_json(_fields(status))
        return 0
    said = [(name, value) for name, value in _lines(status).items() if value is not None]
    print_parts(styled(_heading(status), HEAD), pairs_table(said))
    return 0


def _heading(status: _JobStatus) -> str:
    """The state of the job in one line."""
    summary = status.summary
    if summary.plan_id is None:
        return f"Job {summary.job} has no plan in force."
    ack = summary.ack
    taken = "not answered by the job yet" if ack is None else f"{ack.status} by the job"
    planning = " Planning is stopped." if summary.planning.is_stopped else ""
    waits = " A plan waits for a person." if summary.waiting else ""
    return f"Job {summary.job}: version {summary.version} is in force, {taken}.{planning}{waits}"
