"""Events of ``plans.log`` and statuses of ``plans.acks``, and groups of them."""

from __future__ import annotations

GATE_FAILED = "gate_failed"
DRAFTED = "drafted"
UNCHANGED = "unchanged"
DRY_RUN = "dry_run"
WAITING = "waiting"
FROZEN = "frozen"
APPROVED = "approved"
REJECTED = "rejected"
TIMED_OUT = "timed_out"
PUBLISHED = "published"
CONFLICT = "conflict"
REFUSED = "refused"
SUPERSEDED = "superseded"
ROLLED_BACK = "rolled_back"
PROMISE_BROKEN = "promise_broken"
PLANNING_STOPPED = "planning_stopped"
PLANNING_RESUMED = "planning_resumed"
LOG_EVENTS = (
    GATE_FAILED, DRAFTED, UNCHANGED, DRY_RUN, WAITING, APPROVED, REJECTED, TIMED_OUT, PUBLISHED,
    CONFLICT, REFUSED, SUPERSEDED, ROLLED_BACK, PROMISE_BROKEN,
    PLANNING_STOPPED, PLANNING_RESUMED, FROZEN,
)  # fmt: skip

VERSION_EVENTS = (PUBLISHED, ROLLED_BACK)
"""A version came into force."""
REVIEW_ENDS = (APPROVED, REJECTED, TIMED_OUT, PUBLISHED, REFUSED, CONFLICT, SUPERSEDED)
"""A plan stopped waiting for a person."""
RUN_SUCCEEDED = (DRAFTED, UNCHANGED, PUBLISHED, ROLLED_BACK)
"""A run passed the gate."""
REFUSALS = (GATE_FAILED, REFUSED, CONFLICT, REJECTED, TIMED_OUT)
"""A run ended without the plan that it was started for."""
TROUBLE = (GATE_FAILED, REFUSED, CONFLICT, PROMISE_BROKEN, PLANNING_STOPPED)
"""An operator of the job may have to act."""
PLANNING_EVENTS = (PLANNING_STOPPED, PLANNING_RESUMED)
"""The job stopped making plans by itself, or went on."""
OF_OTHER_RUNS = (SUPERSEDED, PROMISE_BROKEN, *PLANNING_EVENTS)
"""A run recorded it about a plan of another run."""

ACK_REFUSED, ACK_ACCEPTED, ACK_APPLIED = "refused", "accepted", "applied"
ACK_PROGRESS = "progress"
"""A step of a take-up was made, and it was not the last one."""
ACK_SUPERSEDED = "superseded"
"""A newer version was accepted before the last step; the rest of the steps is not made."""
ACK_STATUSES = (ACK_REFUSED, ACK_ACCEPTED, ACK_PROGRESS, ACK_APPLIED, ACK_SUPERSEDED)
