"""Reads whether a job plans by itself, from its log, its outcomes and its policy (ADR 60)."""

from __future__ import annotations

from ballast.contracts.errors import PolicyError
from ballast.contracts.planning_stop import LOAD_DISTANCE, PlanningState, planning_state
from ballast.contracts.policy import ThresholdPolicy, load_policy, policy_from_json
from ballast.contracts.settings import Settings
from ballast.store.plans import read_log, read_outcomes
from ballast.store.snapshots import newest_snapshot


def read_planning_state(settings: Settings, job: str) -> PlanningState:
    """Return whether the job plans by itself, by the rows and the policy as they are now."""
    # The log first: an event that follows from outcomes is written after them.
    log = read_log(settings, job)
    outcomes = read_outcomes(settings, job, figures=[LOAD_DISTANCE])
    return planning_state(log, outcomes, stop_after_of(settings, job))


def stop_after_of(settings: Settings, job: str) -> int | None:
    """Return after how many broken promises in a row the job stops planning; None for never.

    The policy file counts. A machine that has no such file, or a broken one, uses the policy of
    the job's newest snapshot, and without a snapshot the default.
    """
    try:
        thresholds = load_policy(settings.policies / f"{job}.yaml").thresholds
    except PolicyError:
        snapshot = newest_snapshot(settings, job)
        if snapshot is None:
            thresholds = ThresholdPolicy()
        else:
            thresholds = policy_from_json(snapshot.policy_json).thresholds
    return thresholds.stop_after_broken_promises
