"""Reads the policy file of a job as it is today."""

from __future__ import annotations

from ballast.contracts.errors import PolicyError
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.settings import Settings


def current_policy(settings: Settings, otherwise: JobPolicy) -> JobPolicy:
    """The job's policy today; ``otherwise`` if its file cannot be read."""
    try:
        return load_policy(settings.policies / f"{otherwise.job}.yaml")
    except PolicyError:
        return otherwise
