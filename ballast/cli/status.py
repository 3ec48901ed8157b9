"""``ballast status``: how a job stands, in a few lines."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from ballast.cli.render import cell_text, to_json
from ballast.contracts.errors import NotFound
from ballast.contracts.settings import Settings, check_job_name, load_settings
from ballast.store.plans import (
    over_since,
    read_acks,
    read_head,
    read_log,
    read_outcomes,
    read_plan,
    waiting_plans,
)
from ballast.store.tables import read_rows, table_exists

TROUBLE = ("gate_failed", "refused", "conflict", "promise_broken")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "status", help="how a job stands", epilog="example: ballast status flights --json"
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=_status)


def job_status(settings: Settings, job: str) -> dict[str, Any]:
    """What is in force, what was promised and measured, and what last went wrong."""
    head = read_head(settings, job)
    log = read_log(settings, job)
    last_window = newest_window(settings, job)
    if head is None and not log and last_window is None:
        raise NotFound(
            f"warehouse {settings.warehouse} knows no job {job!r}", value=job,
            remedy="start the streaming job, or set BALLAST_WAREHOUSE",
        )  # fmt: skip
    plan: Any = read_plan(settings, job, head.plan_id) if head else {}
    version = head.version if head else 0
    acks = read_acks(settings, job, version) if head else []
    trouble = [row for row in log if row["event"] in TROUBLE]
    waiting = waiting_plans(log)
    return {
        "job": job,
        "version": version,
        "plan_id": head.plan_id if head else None,
        "published_at": head.published_at if head else None,
        "take_up": acks[-1]["status"] if acks else None,
        "taken_up_at_batch": acks[-1]["batch_id"] if acks else None,
        "take_up_reason": acks[-1]["reason"] or None if acks else None,
        "load_distance_before_pct": plan.get("load_distance_before_pct"),
        "load_distance_promised_pct": plan.get("load_distance_pct"),
        "load_distance_measured_pct": _measured(settings, job, version),
        "waiting_plan_id": waiting[-1]["plan_id"] if waiting else None,
        "waiting_since": waiting[-1]["at"] if waiting else None,
        "waiting_reason": waiting[-1]["reason"] if waiting else None,
        "last_window_end_at": last_window,
        "last_event": log[-1]["event"] if log else None,
        "last_event_at": log[-1]["at"] if log else None,
        "last_event_reason": log[-1]["reason"] if log else None,
        "last_trouble": trouble[-1]["event"] if trouble else None,
        "last_trouble_at": trouble[-1]["at"] if trouble else None,
        "last_trouble_reason": trouble[-1]["reason"] if trouble else None,
        "last_trouble_over_since": over_since(log, trouble[-1]) if trouble else None,
    }


def newest_window(settings: Settings, job: str) -> datetime | None:
    """End of the newest window the job wrote."""
    if not table_exists(settings, "metrics.nodes"):
        return None
    column = read_rows(settings, "metrics.nodes", job=job, columns=["window_end_at"])
    values = [value for value in column["window_end_at"].to_pylist() if value is not None]
    return max(values, default=None)


def _measured(settings: Settings, job: str, version: int) -> float | None:
    rows = [
        row for row in read_outcomes(settings, job, version) if row["figure"] == "load_distance_pct"
    ]
    return rows[-1]["measured"] if rows else None


def _status(args: argparse.Namespace) -> int:
    status = job_status(load_settings(), check_job_name(args.job))
    if args.json:
        print(to_json(status))
        return 0
    width = max(len(name) for name in status)
    for name, value in status.items():
        print(f"{name.replace('_', ' ').ljust(width)}  {cell_text(value)}")
    return 0
