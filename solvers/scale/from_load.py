"""Parallelism from load: pi = ceil(2w / (u + v)), [AUTODASP17], ELB phase 1.

``u`` and ``v`` are the upper and lower load of an instance, which are the policy's boundaries;
``w`` is the whole load. The target is the middle of ``u`` and ``v``, not the policy's target.
"""

from __future__ import annotations

import math

from ballast.contracts.errors import InvalidInput
from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.observation import Observation
from solvers.scale.policy import Boundaries, Policy
from solvers.scale.sizing import ROUNDING, needs_at

NAME = "from_load"


def parallelism(w: float, u: float, v: float) -> int:
    """ceil(2w / (u + v)): instances whose average load is in the middle of [v, u].

    Raises:
        InvalidInput: the load is no number >= 0, or the bounds cross.
    """
    if not (math.isfinite(w) and w >= 0):
        raise InvalidInput(f"the load w is {w!r}", allowed="a number >= 0")
    if not 0 <= v < u or not math.isfinite(u):
        raise InvalidInput(f"the bounds cross: v {v}, u {u}", allowed="0 <= v < u")
    return math.ceil(2 * w / (u + v) * (1 - ROUNDING))


def needs(observation: Observation, policy: Policy, history: ScalingHistory) -> tuple[Need, ...]:  # noqa: ARG001
    """For each cluster ceil(2w / (u + v)), in nodes of the cluster's own size."""
    limits = policy.boundaries_of(policy.resource)
    boundaries = Boundaries.around_middle(limits.lower, limits.upper)
    return needs_at(observation, policy, boundaries)
