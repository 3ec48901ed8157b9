"""The size of one cluster after a round: nodes before and after, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.observation import Observation
from solvers.scale.policy import Policy


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """What the size of a cluster depends on besides its need."""

    observation: Observation
    policy: Policy
    history: ScalingHistory


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """Nodes of a cluster after and before the round, and why."""

    need: Need
    nodes: int
    before: int
    why: str
    would_change: str
    """What would have led to another size."""
    removable: tuple[str, ...] = ()
    """Nodes that may be removed, if the cluster shrinks."""


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.0f} %" if math.isfinite(share) else "more than all there is"
