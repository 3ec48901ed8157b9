"""The version that a job runs under, and the subtasks that it gives each operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ballast.contracts.engine import FlinkEngine
from ballast.contracts.log_events import ACK_APPLIED
from ballast.contracts.policy import JobPolicy
from ballast.contracts.scaling import operator_sizes, scaled
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_scaling


@dataclass(frozen=True)
class FollowedPlan:
    """The newest version that was applied; version 0 is the job as it is started."""

    version: int
    sizes: Mapping[str, int]


def followed_plan(settings: Settings, policy: JobPolicy, engine: FlinkEngine) -> FollowedPlan:
    """The newest version that the job acknowledged as applied.

    An operator that it does not size keeps the size that the policy says.
    """
    applied = [ack for ack in read_acks(settings, policy.job) if ack.status == ACK_APPLIED]
    newest = max(applied, key=lambda ack: ack.version, default=None)
    first = engine.first_sizes
    if newest is None:
        return FollowedPlan(0, first)
    sizes = operator_sizes(scaled(read_scaling(settings, policy.job, newest.plan_id)))
    return FollowedPlan(
        newest.version, {name: sizes.get(name, size) for name, size in first.items()}
    )
