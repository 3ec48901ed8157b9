"""``ballast trigger``: starts a run of ``reoptimize__<job>``."""

from __future__ import annotations

import argparse
from typing import Any

from ballast.airflow.rest import Json
from ballast.cli.access import add_access_arguments, client_of
from ballast.cli.runs import add_run_arguments, report_run, start_run
from ballast.contracts.errors import InvalidInput
from ballast.contracts.settings import check_job_name

NO_LIMIT = "none"
LIMITS: dict[str, type[int] | type[float]] = {
    "budget_moves": int, "budget_bytes": int, "budget_pause_s": float, "solver_seconds": float,
}  # fmt: skip
EXAMPLE = "example: ballast trigger flights --dry-run --budget-moves 20 --wait"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "trigger",
        help="start a run that plans anew",
        description="Start a run of reoptimize__JOB in Airflow. What is not said is as the job's "
        "policy has it.",
        epilog=EXAMPLE,
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--dry-run", action="store_true", help="write the draft, publish nothing")
    for limit in LIMITS:
        allowed = "a number" if limit == "solver_seconds" else f"a number or {NO_LIMIT}"
        parser.add_argument(f"--{limit.replace('_', '-')}", metavar="LIMIT", help=allowed)
    parser.add_argument("--method", help="method of this plan, as in docs/methods.md")
    add_access_arguments(parser)
    add_run_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Start the run and print its address; return the exit code."""
    job, conf = check_job_name(args.job), _conf(args)
    client, dag_id = client_of(args), f"reoptimize__{job}"
    run_id = start_run(client, dag_id, conf, f"start a run for job {job}")
    return report_run(client, dag_id, run_id, "started", args, conf=conf)


def _conf(args: argparse.Namespace) -> Json:
    """Return the Params of the run that the command line sets."""
    conf: Json = {"dry_run": True} if args.dry_run else {}
    if args.method is not None:
        conf["method"] = args.method
    for name, kind in LIMITS.items():
        text = getattr(args, name)
        if text is not None:
            conf[name] = _limit(name, text, kind)
    return conf


def _limit(name: str, text: str, kind: type[int] | type[float]) -> Any:
    if text == NO_LIMIT and name != "solver_seconds":
        return None
    try:
        return kind(text)
    except ValueError as error:
        raise InvalidInput(
            f"--{name.replace('_', '-')} {text!r}", value=text, allowed="a number"
        ) from error
