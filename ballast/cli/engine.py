"""``ballast engine``: runs the collector and the applier of a job on another engine than Spark."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
from types import FrameType

from ballast.contracts.policy import load_policy
from ballast.contracts.settings import check_job_name, load_settings

EXAMPLE = "example: ballast engine run orders"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("engine", help="connect a job of another engine", epilog=EXAMPLE)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    run = commands.add_parser(
        "run",
        help="collect the metrics of a job and apply its plans, until stopped",
        description="Write the metrics of a job's members into the warehouse, and bring the job "
        "under the plan in force. Runs until SIGTERM or Ctrl-C. A second one for the same job "
        "waits, and takes over when the first one ends. See docs/engines.md.",
        epilog=EXAMPLE,
    )
    run.add_argument("job", metavar="JOB")
    run.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from ballast.engines.registry import open_session
    from ballast.engines.service import EngineService

    settings, job = load_settings(), check_job_name(args.job)
    policy = load_policy(settings.policies / f"{job}.yaml")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("ballast").setLevel(logging.INFO)
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    session = open_session(settings, policy)
    logging.getLogger("ballast.engines").info("job %s: engine %s", job, policy.engine.kind)
    EngineService(session, stopping).run()
    return 0
