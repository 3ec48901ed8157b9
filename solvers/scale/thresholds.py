"""Thresholds for each cluster, with an ideal load between them: [DODO, 7.1.1], Algorithm 2.

It follows the text where the printed code differs from it. Every cluster has its own number (the
print never resets I_L and applies the last one). The cap is on all clusters together (the print
compares each cluster with it). Shrinking aims at k x Max (the print uses Max, and can remove more
nodes than there are). Growing aims at k x Max as well: with Max, as printed, the next record would
start the next launch. See docs/papers.md.

Launch and shutdown time, the minimum, the cap and paid hours are limits of all policies
(scaling_limits.py).
"""

from __future__ import annotations

from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.observation import Observation
from solvers.scale.policy import Policy
from solvers.scale.sizing import needs_at

NAME = "thresholds"


def needs(observation: Observation, policy: Policy, history: ScalingHistory) -> tuple[Need, ...]:  # noqa: ARG001
    """For each cluster, the nodes that bring the average load to the ideal one."""
    return needs_at(observation, policy, policy.boundaries_of(policy.resource))
