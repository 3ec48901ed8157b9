"""``ballast resume``: lets a job that has stopped planning by itself plan again."""

from __future__ import annotations

import argparse

from ballast.cli.access import add_access_arguments, client_of
from ballast.cli.runs import add_run_arguments, report_run, start_run
from ballast.contracts.errors import InvalidInput
from ballast.contracts.settings import Settings, check_job_name, load_settings
from ballast.store.planning import read_planning_state
from ballast.store.plans import read_log

EXAMPLE = "example: ballast resume flights --reason 'node-2 is on its own machine again' --wait"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "resume",
        help="let a job plan again that has stopped by itself",
        description="Start a run of reoptimize__JOB in Airflow that resumes planning and plans. A "
        "job stops planning by itself after several broken promises in a row; `ballast status JOB` "
        "says why.",
        epilog=EXAMPLE,
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--reason", required=True, help="why; kept in the log of plans")
    add_access_arguments(parser)
    add_run_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Start the run and print its address; return the exit code."""
    job, reason = check_job_name(args.job), args.reason.strip()
    if not reason:
        raise InvalidInput("--reason is empty", remedy="say why, for who reads the log")
    check_stopped(load_settings(), job)
    conf = {"resume": reason}
    client, dag_id = client_of(args), f"reoptimize__{job}"
    run_id = start_run(client, dag_id, conf, f"resume planning of job {job}")
    return report_run(client, dag_id, run_id, "resuming planning", args, conf=conf)


def check_stopped(settings: Settings, job: str) -> None:
    """Check that planning is stopped.

    A machine without access to the warehouse sees no log. Then nothing is checked here, and the
    run itself says if there is nothing to resume.

    Raises:
        InvalidInput: the job plans by itself.
    """
    if read_log(settings, job) and not read_planning_state(settings, job).is_stopped:
        raise InvalidInput(
            f"planning of job {job} is not stopped", value=job,
            remedy=f"start a run with `ballast trigger {job}`",
        )  # fmt: skip
