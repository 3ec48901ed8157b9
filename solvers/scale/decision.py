"""What a policy needs, what was decided and why, and what is remembered of past rounds."""

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
    """A policy's own answer for one cluster, before hysteresis, cool-down and limits.

    ``utilisation`` is what is compared with ``boundaries`` (1.0 is full); ``ahead`` is the same
    for the period to come where a policy looks that far, else the present. ``nodes`` brings the
    larger of them to the target. ``saturating`` are resources whose measured use cannot exceed
    the capacity, so that a full window hides how much more was wanted.
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
    """How many nodes there shall be, in one sentence why, and what would have changed it.

    ``removable`` lists, where the decision is to shrink, the nodes whose paid time is over;
    which of them go is the allocation's choice. ``parallelism`` sizes operators where the policy
    knows them one by one.
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
    """What one past round saw and did."""

    at_s: float
    action: ScalingAction
    needs: Mapping[str, int]
    utilisation: Mapping[str, float]
    loads: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ScalingHistory:
    """The rounds so far, oldest first. A round that saw too little to measure is not in it."""

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
        """The history with this round in it; nothing is learned from a round without metrics."""
        if decision.missing or not decision.needs:
            return self
        if self.last is not None and at_s < self.last.at_s:
            return self
        kept = [r for r in self.rounds if r.at_s != at_s]
        this = PastRound(
            at_s, decision.action, decision.needs, decision.utilisation, decision.loads
        )
        return ScalingHistory((*kept, this)[-memory_rounds:])
