"""The verdict of the guard on one cluster: nodes before and after, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.observation import Observation
from solvers.scale.policy import Policy


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """What a verdict depends on besides the need of the cluster."""

    observation: Observation
    policy: Policy
    history: ScalingHistory


@dataclass(frozen=True, slots=True)
class ScalingVerdict:
    """Nodes of a cluster after and before the round, and why."""

    need: Need
    nodes: int
    before: int
    why: str
    would_change: str
    """What would have led to another verdict."""
    removable: tuple[str, ...] = ()
    """Nodes that may be removed, if the cluster shrinks."""


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.0f} %" if math.isfinite(share) else "more than all there is"
