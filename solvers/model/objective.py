"""What a plan is for: the word that policies, problem folders, solvers and the verifier share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ballast.contracts.errors import InvalidInput
from ballast.contracts.tables import (
    BALANCE,
    JOINT,
    LEXICOGRAPHIC,
    OBJECTIVES,
    TRADES,
    WEIGHTED,
)
from solvers.model.amortisation import AmortisationGate
from solvers.model.parameter_checks import is_finite
from solvers.model.traffic_costs import TrafficCosts

if TYPE_CHECKING:
    from ballast.contracts.policy import ObjectivePolicy

__all__ = [
    "BALANCE", "JOINT", "LEXICOGRAPHIC", "OBJECTIVES", "TRADES", "WEIGHTED", "Objective",
    "TradeWeights", "objective_of_policy",
]  # fmt: skip

DEFAULT_MAX_LOAD_DISTANCE = 10.0


@dataclass(frozen=True, slots=True)
class TradeWeights:
    """What a percent of the traffic saved is worth beside a percent of load distance."""

    traffic: float = 1.0
    load: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("traffic_weight", self.traffic), ("load_weight", self.load)):
            if not (is_finite(value) and value > 0):
                raise InvalidInput(
                    f"{name} is {value!r}", value=value, allowed="a finite number > 0"
                )

    def score(self, saved_pct: float, load_distance: float) -> float:
        """The more, the better; only differences mean something."""
        return self.traffic * saved_pct - self.load * load_distance


@dataclass(frozen=True, slots=True)
class Objective:
    """*balance*: the least load distance. *joint*: the most traffic that stays within nodes, with
    the load distance at most ``max_load_distance`` percent of the mean; or, where there are
    ``weights``, the best weighted sum of both, and then no bound holds.

    ``costs`` and ``gate`` are a joint plan's alone: what a record between nodes costs, by which
    the load under the plan is predicted, and what a move has to earn (no gate: nothing).

    ``levelling_limit`` is a balance plan's alone: a plan that levels a single operator may raise
    the load distance of the job up to it. With 0 no plan may raise it."""

    kind: str = BALANCE
    max_load_distance: float = DEFAULT_MAX_LOAD_DISTANCE
    costs: TrafficCosts = field(default_factory=TrafficCosts)
    gate: AmortisationGate | None = None
    weights: TradeWeights | None = None
    levelling_limit: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in OBJECTIVES:
            raise InvalidInput(f"objective is {self.kind!r}", allowed=", ".join(OBJECTIVES))
        if not (is_finite(self.max_load_distance) and self.max_load_distance > 0):
            raise InvalidInput(
                f"max_load_distance is {self.max_load_distance!r}",
                allowed="a finite number > 0, in percent of the mean",
            )

    @property
    def is_joint(self) -> bool:
        return self.kind == JOINT

    @property
    def is_weighted(self) -> bool:
        """Whether load and traffic are traded by weights."""
        return self.is_joint and self.weights is not None

    @property
    def trade(self) -> str | None:
        """How a joint plan trades load for traffic; None where it is not joint."""
        if not self.is_joint:
            return None
        return WEIGHTED if self.weights is not None else LEXICOGRAPHIC


def objective_of_policy(
    aim: ObjectivePolicy, costs: TrafficCosts | None = None, gate: AmortisationGate | None = None
) -> Objective:
    """What the objective section of a policy asks for."""
    is_weighted = aim.trade == WEIGHTED
    return Objective(
        aim.kind,
        aim.max_load_distance_pct,
        costs or TrafficCosts(),
        gate,
        TradeWeights(aim.traffic_weight, aim.load_weight) if is_weighted else None,
    )
