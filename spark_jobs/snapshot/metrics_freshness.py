"""Whether a job's metrics are recent enough for a snapshot, and the errors if not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from ballast.contracts.errors import GateFailed
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Ack, Head
from spark_jobs.snapshot.message_text import utc_text
from spark_jobs.snapshot.run_context import SnapshotRequest

# A job is silent if its newest window is older than this many windows and older than a minute:
# batches take time, and so does the commit of their metrics.
FRESH_WINDOWS = 3
FRESH_S = 60.0


def longest_age(policy: JobPolicy) -> timedelta:
    """The greatest age of a newest window of a running job."""
    return timedelta(seconds=max(FRESH_WINDOWS * policy.window_s, FRESH_S))


def newest_aligned(ends: Iterable[datetime], policy: JobPolicy) -> datetime | None:
    """The latest end of a window that is a multiple of the policy's window length.

    A window off that grid is a bad row and must not move the period.
    """
    return max((end for end in ends if _is_aligned(end, policy)), default=None)


def _is_aligned(end: datetime, policy: JobPolicy) -> bool:
    micros = (end - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return micros % round(policy.window_s * 1_000_000) == 0


def no_fresh_metrics(request: SnapshotRequest, ends: Sequence[datetime]) -> GateFailed:
    """The error of a job without a fresh window; ``ends`` are the ends of all its windows."""
    policy = request.policy
    last = newest_aligned(ends, policy)
    if ends and (last is None or max(ends) > request.as_of - longest_age(policy)):
        aligned = "none does" if last is None else f"the last that does ends at {utc_text(last)}"
        return GateFailed(
            f"job {request.job} writes windows that do not end at multiples of "
            f"{policy.window_s:g} s, the policy's window_s: the last one ends at "
            f"{utc_text(max(ends))}, {aligned}; start the streaming job with the policy's "
            "window_s, or set window_s to the job's, then start a new run"
        )
    if last is None:
        return GateFailed(
            f"job {request.job} has no metrics in the warehouse; start the streaming job, let it "
            f"run for {policy.statistics_period_s:g} s, then start a new run"
        )
    return GateFailed(
        f"job {request.job} is silent since {utc_text(last)}, the end of its last window; restart "
        f"the streaming job, let it run for {policy.statistics_period_s:g} s, then start a new run"
    )


def require_taken_up(
    head: Head | None, acks: Sequence[Ack], ran_under: int, newest: datetime
) -> None:
    """Raise if the newest window ran under an older version than the head.

    A plan made from such a window would move key groups from nodes that they are about to leave.
    A version that the job refused is not waited for: the job stays where its windows show it.

    Args:
        head: the plan in force, or None before the first.
        acks: the job's acknowledgements of the head's version, oldest first.
        ran_under: the version of the newest window.
        newest: the end of the newest window.

    Raises:
        GateFailed: the job has not taken up the head and has not refused it.
    """
    if head is None:
        return
    is_refused = bool(acks) and acks[-1].status == "refused"
    if ran_under < head.version and not is_refused:
        raise GateFailed(
            f"version {head.version} of job {head.job} is published but not taken up: the "
            f"window up to {utc_text(newest)} still ran under version {ran_under}; wait for the "
            f"job's next batches, or see `ballast plans show {head.job}`, then start a new run"
        )


def require_last_step(policy: JobPolicy, acks: Sequence[Ack], ran_under: int) -> None:
    """Raise if the job is still making the steps of the version that the newest window ran under.

    Between steps key groups are on their way, and an average over steps would describe a placement
    that never existed (ADR 28, ADR 72). A job whose policy has steps must have acknowledged the
    version: without that nobody knows which windows came after the last step.

    Args:
        policy: the job's policy.
        acks: the job's acknowledgements of the version, oldest first.
        ran_under: the version of the newest window; 0 before the first plan.

    Raises:
        GateFailed: steps are left, or their end is not known.
    """
    last = acks[-1] if acks else None
    if ran_under == 0 or (last is None and not policy.take_up.limits.is_limited):
        return
    if last is None:
        raise GateFailed(
            f"job {policy.job} runs under version {ran_under} and has not acknowledged it, and "
            "its policy has take_up, so that steps may be left; wait until "
            f"`ballast plans show {policy.job}` lists the acknowledgement, then start a new run"
        )
    if last.is_unfinished:
        raise GateFailed(
            f"version {ran_under} of job {policy.job} is being taken up in steps: "
            f"{last.progress_text} are made; wait until it is applied, or see `ballast plans show "
            f"{policy.job}`, then start a new run"
        )
