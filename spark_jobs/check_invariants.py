"""Check that heads, plans and log agree: ``python spark_jobs/check_invariants.py``.

Rows that plans.log lacks are added. Every other violation is reported with a remedy, and the
program exits with code 8. It needs no JVM and may run at any time, also beside publishers.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ballast.contracts.errors import InvariantBroken
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from spark_jobs.program.arguments import job_name
from spark_jobs.program.run import progress, run_program
from spark_jobs.upkeep.job_state import jobs_with_plans
from spark_jobs.upkeep.log_repair import check_jobs


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``check_invariants``."""
    parser.add_argument("--job", type=job_name, help="check this job only (default: all jobs)")
    parser.add_argument("--no-repair", action="store_true", help="report, write nothing")


def body(arguments: Namespace, settings: Settings) -> None:
    """Check one job or all; raise InvariantBroken if something is left to repair."""
    jobs = [arguments.job] if arguments.job else jobs_with_plans(settings)
    broken = check_jobs(settings, jobs, repair=not arguments.no_repair)
    if broken:
        raise InvariantBroken(
            f"{len(broken)} invariants are violated in {len(jobs)} jobs: "
            + " | ".join(map(str, broken))
        )
    progress.info("all invariants hold in %d jobs", len(jobs))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program(
        "check_invariants", "Check that heads, plans and log agree.", add_arguments, body, argv,
    )  # fmt: skip


if __name__ == "__main__":
    exit_now(main())
