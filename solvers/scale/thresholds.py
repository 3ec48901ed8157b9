"""Thresholds per cluster with an ideal load in between: [DODO, 7.1.1], Algorithm 2.

As its text means it, which the printed code does not always do: every cluster has its own number
(the print never resets I_L and applies the last one), the cap is over all clusters together (the
print compares each with it), and shrinking aims at k x Max (the print takes Max where the text
has k x Max, and can remove more nodes than there are). Growing aims at k x Max as well: at Max,
as printed, the next record would trigger the next launch. See docs/papers.md.

Launch and shutdown time, the minimum of nodes, the cap and hours already paid for are kept by the
guard, for this policy as for all others.
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
