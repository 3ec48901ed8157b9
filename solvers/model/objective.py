"""The objective of a plan, shared by policies, problem folders, solvers and the verifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ballast.contracts.errors import InvalidInput
from ballast.contracts.tables import BALANCE, JOINT, LEXICOGRAPHIC, OBJECTIVES, TRADES, WEIGHTED
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
    """The weights of a percent of traffic saved and of a percent of load distance."""

    traffic: float = 1.0
    load: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("traffic_weight", self.traffic), ("load_weight", self.load)):
            if not (is_finite(value) and value > 0):
                raise InvalidInput(
                    f"{name} is {value!r}", value=value, allowed="a finite number > 0"
                )

    def score(self, saved_pct: float, load_distance: float) -> float:
        """Return the weighted sum; larger is better."""
        return self.traffic * saved_pct - self.load * load_distance


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective of a plan.

    *balance*: the least load distance. *joint*: the most traffic within nodes, with a load distance
    of at most ``max_load_distance`` percent of the mean; with ``weights`` the best weighted sum of
    both, without that limit.

    ``costs`` and ``gate`` are used by joint plans only: the cost of a record between nodes, which
    predicts the load under the plan, and the gate for moves (None: every move may be made).

    ``levelling_limit`` is used by balance plans only: a plan that levels a single operator may
    raise the load distance of the job up to it. With 0 no plan may raise it.
    """

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
        """How a joint plan trades load for traffic; None for other plans."""
        if not self.is_joint:
            return None
        return WEIGHTED if self.weights is not None else LEXICOGRAPHIC


def objective_of_policy(
    aim: ObjectivePolicy, costs: TrafficCosts | None = None, gate: AmortisationGate | None = None
) -> Objective:
    """Return the objective that a policy states.

    Args:
        aim: The objective section of the policy.
        costs: Measured costs of traffic; None for none.
        gate: The gate for moves of joint plans; None lets every move be made.
    """
    is_weighted = aim.trade == WEIGHTED
    return Objective(
        aim.kind,
        aim.max_load_distance_pct,
        costs or TrafficCosts(),
        gate,
        TradeWeights(aim.traffic_weight, aim.load_weight) if is_weighted else None,
    )
