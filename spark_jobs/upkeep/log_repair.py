"""Check the invariants of jobs, and repair the log where a row is missing."""

from __future__ import annotations

from collections.abc import Sequence

from ballast.contracts.records import Head
from ballast.contracts.settings import Settings
from spark_jobs.program.run import progress
from spark_jobs.upkeep.invariants import InvariantViolation, Publication, invariant_violations
from spark_jobs.upkeep.job_state import read_state
from spark_jobs.warehouse.plan_log import append_event, published_event


def check_jobs(
    settings: Settings, jobs: Sequence[str], *, repair: bool = True
) -> list[InvariantViolation]:
    """Check the jobs and add rows that plans.log lacks.

    Args:
        repair: add the missing rows; if False, they are reported as violations.

    Returns:
        The violations that are left.
    """
    broken = []
    for job in jobs:
        state = read_state(settings, job)
        for violation in invariant_violations(state):
            if repair and violation.repair is not None:
                _repair_log(settings, job, violation.repair)
            else:
                progress.info("%s", violation)
                broken.append(violation)
        version = state.head.version if state.head else 0
        progress.info("checked job %s: version %d is in force", job, version)
    return broken


def _repair_log(settings: Settings, job: str, missing: Publication) -> None:
    """Add a row that plans.log lacks, once, even if its publisher adds it at the same time."""
    # The event does not need the content hash.
    head = Head(
        job=job, version=missing.version, plan_id=missing.plan_id, content_hash="",
        run_id=missing.run_id, published_at=missing.at,
    )  # fmt: skip
    reason = (
        f"plan {missing.plan_id} of run {missing.run_id} is version {missing.version}: found in "
        "the history of the heads by check_invariants"
    )
    is_added = append_event(settings, published_event(head, reason), at=missing.at)
    progress.info(
        "job %s: plans.log lacked version %d; %s", job, missing.version,
        "added" if is_added else "its publisher has added it meanwhile",
    )  # fmt: skip
