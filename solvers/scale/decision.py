"""Needs of a policy, the scaling decision with its reason, and the history of past rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from solvers.scale.policy import Boundaries


class ScalingAction(StrEnum):
    HOLD = "hold"
    OUT = "out"
    IN = "in"


@dataclass(frozen=True, slots=True)
class Need:
    """What a policy asks for in one cluster, before hysteresis, cool-down and limits.

    ``utilisation`` is compared with ``boundaries`` (1.0 is full). ``ahead`` is the forecast of the
    utilisation, or None if the policy does not forecast. With ``nodes`` nodes the larger of both
    is at the target. ``saturating`` are resources whose measured use cannot exceed the capacity: a
    full window does not show the whole demand.
    """

    cluster: str
    nodes: int
    utilisation: float
    boundaries: Boundaries
    metric: str
    saturating: tuple[str, ...] = ()
    ahead: float | None = None
    may_shrink: bool = True
    note: str = ""
    load: Mapping[str, float] = field(default_factory=dict)
    parallelism: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """Nodes of each cluster before and after, the reason, and what would have changed it.

    If the decision is to shrink, ``removable`` has the nodes whose paid time ends; the allocation
    chooses among them. ``parallelism`` has the size of each operator, if the policy computes it.
    """

    action: ScalingAction
    before: Mapping[str, int]
    after: Mapping[str, int]
    reason: str
    binding: str
    would_change: str
    needs: Mapping[str, int] = field(default_factory=dict)
    utilisation: Mapping[str, float] = field(default_factory=dict)
    loads: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    removable: tuple[str, ...] = ()
    parallelism: Mapping[str, int] = field(default_factory=dict)

    @property
    def scales(self) -> bool:
        return self.action is not ScalingAction.HOLD

    def change(self, cluster: str) -> int:
        return self.after[cluster] - self.before[cluster]


@dataclass(frozen=True, slots=True)
class PastRound:
    """Needs, loads and action of one past round."""

    at_s: float
    action: ScalingAction
    needs: Mapping[str, int]
    utilisation: Mapping[str, float]
    loads: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ScalingHistory:
    """Past rounds, oldest first, without rounds whose metrics were missing."""

    rounds: tuple[PastRound, ...] = ()

    @property
    def last(self) -> PastRound | None:
        return self.rounds[-1] if self.rounds else None

    def last_action_at_s(self) -> float | None:
        return next(
            (r.at_s for r in reversed(self.rounds) if r.action is not ScalingAction.HOLD), None
        )

    def remember(
        self, at_s: float, decision: ScalingDecision, memory_rounds: int
    ) -> ScalingHistory:
        """The history with this round added, unless its metrics were missing."""
        if decision.missing or not decision.needs:
            return self
        if self.last is not None and at_s < self.last.at_s:
            return self
        kept = [r for r in self.rounds if r.at_s != at_s]
        this = PastRound(
            at_s, decision.action, decision.needs, decision.utilisation, decision.loads
        )
        return ScalingHistory((*kept, this)[-memory_rounds:])
