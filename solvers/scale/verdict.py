"""What becomes of one cluster, and the two halves of the sentence about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solvers.scale.decision import Need


@dataclass(frozen=True, slots=True)
class ScalingVerdict:
    """Nodes after and before, why, and what would have changed it."""

    need: Need
    nodes: int
    before: int
    why: str
    would_change: str
    removable: tuple[str, ...] = ()


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if math.isfinite(share) else "more than all there is"
