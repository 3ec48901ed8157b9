"""``ballast rollback``: publishes the content of an older version as a new version."""

from __future__ import annotations

import argparse

from ballast.cli.access import add_access_arguments, client_of
from ballast.cli.runs import add_run_arguments, report_run, start_run
from ballast.contracts.errors import InvalidInput, NotFound
from ballast.contracts.settings import Settings, check_job_name, load_settings
from ballast.readmodel.job_history import JobHistory
from ballast.store.cache import TableCache

EXAMPLE = "example: ballast rollback flights 3 --reason 'version 4 starves node-2' --wait"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "rollback",
        help="put an older version in force again",
        description="Start a run of rollback__JOB in Airflow, which publishes the content of an "
        "older version as a new one, if it fits the nodes of today.",
        epilog=EXAMPLE,
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("version", metavar="VERSION", type=int, help="see `ballast plans list JOB`")
    parser.add_argument("--reason", required=True, help="why; kept in the log of plans")
    parser.add_argument(
        "--force-nodes", action="store_true",
        help="what the old version has on nodes that are gone is placed anew",
    )  # fmt: skip
    add_access_arguments(parser)
    add_run_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Start the run and print its address; return the exit code."""
    job = check_job_name(args.job)
    if not args.reason.strip():
        raise InvalidInput("--reason is empty", remedy="say why, for who reads the log")
    _check_version(load_settings(), job, args.version)
    conf = {
        "version": args.version,
        "reason": args.reason.strip(),
        "force_nodes": args.force_nodes,
    }
    client, dag_id = client_of(args), f"rollback__{job}"
    run_id = start_run(client, dag_id, conf, f"roll job {job} back to version {args.version}")
    action = f"rolling {job} back to version {args.version}"
    return report_run(client, dag_id, run_id, action, args, conf=conf)


def _check_version(settings: Settings, job: str, version: int) -> None:
    """Check that a rollback to the version is possible.

    A machine without access to the warehouse sees no versions. Then nothing is checked here, and
    the run itself refuses a wrong version.

    Raises:
        NotFound: the version does not exist, or is in force.
    """
    versions = JobHistory(TableCache(settings), job).versions
    if not versions and version >= 1:
        return
    older = sorted(versions)[:-1]
    if version in older:
        return
    known = f"{older[0]} to {older[-1]}" if older else "none: there is no older version"
    in_force = bool(versions) and version == max(versions)
    problem = "is in force" if in_force else "does not exist"
    raise NotFound(
        f"version {version} of job {job} {problem}", value=version, allowed=known,
        remedy=f"see `ballast plans list {job}`",
    )  # fmt: skip
