"""Check that heads, plans and log fit together: ``python spark_jobs/check_invariants.py``.

Adds rows that plans.log lacks, which is safe: a version is written down once, whoever does it.
Everything else is reported with what to do, and ends with code 8. Needs no JVM, and may run at any
time, beside publishers as well.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ballast.contracts.errors import InvariantBroken
from ballast.contracts.process_exit import exit_now
from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from spark_jobs.program.arguments import job_name
from spark_jobs.program.run import progress, run_program
from spark_jobs.upkeep.invariants import InvariantViolation, JobState, invariant_violations
from spark_jobs.upkeep.job_state import jobs_with_plans, read_state
from spark_jobs.warehouse.plan_log import append_event, published_event


def check_jobs(
    settings: Settings, jobs: Sequence[str], *, repair: bool = True
) -> list[InvariantViolation]:
    """Check the jobs, put right what is safe to; returns what is still broken."""
    broken = []
    for job in jobs:
        state = read_state(settings, job)
        for finding in invariant_violations(state):
            if repair and finding.repair is not None:
                repair_log(settings, state, finding)
            else:
                progress.info("%s", finding)
                broken.append(finding)
        version = state.head.version if state.head else 0
        progress.info("checked job %s: version %d is in force", job, version)
    return broken


def repair_log(settings: Settings, state: JobState, finding: InvariantViolation) -> None:
    """Add the row that plans.log lacks; its publisher may do so at the same time."""
    said = finding.repair
    assert said is not None  # noqa: S101 - the caller looked
    # The event needs nothing of the content.
    head = Head(
        job=state.job, version=said.version, plan_id=said.plan_id, content_hash="",
        run_id=said.run_id, published_at=said.at,
    )  # fmt: skip
    reason = (
        f"plan {said.plan_id} of run {said.run_id} is version {said.version}: found in the history "
        "of the heads by check_invariants"
    )
    wrote = append_event(settings, published_event(head, reason), at=said.at)
    progress.info(
        "job %s: plans.log lacked version %d; %s", state.job, said.version,
        "added" if wrote else "its publisher has added it meanwhile",
    )  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``check_invariants``."""
    parser.add_argument("--job", type=job_name, help="only this one (default: all there are)")
    parser.add_argument("--no-repair", action="store_true", help="report, write nothing")


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``check_invariants`` as the command line asks for it."""
    jobs = [arguments.job] if arguments.job else jobs_with_plans(settings)
    broken = check_jobs(settings, jobs, repair=not arguments.no_repair)
    if broken:
        raise InvariantBroken(
            f"{len(broken)} of what must hold does not, in {len(jobs)} jobs: "
            + " | ".join(map(str, broken))
        )
    progress.info("everything holds in %d jobs", len(jobs))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program(
        "check_invariants", "Check that heads, plans and log fit together.", add_arguments, body,
        argv,
    )  # fmt: skip


if __name__ == "__main__":
    exit_now(main())
