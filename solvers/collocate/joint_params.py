"""The parameters of the joint search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from ballast.contracts.errors import InvalidInput
from ballast.contracts.tables import EXACT, PRECISIONS
from solvers.collocate.target_memory import TargetMemory
from solvers.model.amortisation import AmortisationGate
from solvers.model.method import Parameter, check_parameters
from solvers.model.objective import LEXICOGRAPHIC, TRADES
from solvers.model.traffic_costs import TrafficCosts


@dataclass(frozen=True, slots=True)
class JointParams:
    """Parameters of one round of the joint search.

    Attributes:
        max_load_distance: Load distance that a plan may have, in percent of the mean. A weighted
            search uses it as the first bound it tries, and does not enforce it.
        objective: How load and traffic are traded, one of ``TRADES``.
        traffic_weight: Weighted search: worth of one percent of traffic saved.
        load_weight: Weighted search: worth of one percent of load distance.
        costs: Prices of records between nodes and racks, and of serialisation.
        gate: Decides whether saved traffic pays for moved state; None lets every move through.
        target: Target that the last round returned; None in the first round.
        from_scratch: Whether a placement from scratch (COLA) is a candidate too.
        precision: ``measured``: moves whose gain is within the noise are taken back, where the
            noise of the loads is known.
    """

    max_load_distance: float = 10.0
    objective: str = LEXICOGRAPHIC
    traffic_weight: float = 1.0
    load_weight: float = 1.0
    costs: TrafficCosts = field(default_factory=TrafficCosts)
    gate: AmortisationGate | None = None
    score_factor: Annotated[
        float, Parameter("an edge is heavy above this multiple of the average", at_least=0)
    ] = 1.5
    target_bonus: Annotated[
        float,
        Parameter(
            "worth of a key group at its target, per record with its own cluster", at_least=0
        ),
    ] = 0.5
    drain_worth: Annotated[
        float, Parameter("worth of leaving a draining node, in units of all traffic", at_least=0)
    ] = 1.0
    propose_every: Annotated[
        int, Parameter("rounds after which a new target is computed", at_least=1)
    ] = 5
    passes: Annotated[
        int,
        Parameter("how often some moves are undone and the budget is filled again", at_least=0),
    ] = 12
    level_to: Annotated[
        float,
        Parameter(
            "load distance in percent to which moves left in the budget level the load, where that "
            "loses no traffic",
            at_least=0,
        ),
    ] = 1.0
    target: TargetMemory | None = None
    from_scratch: bool = False
    precision: str = EXACT

    def __post_init__(self) -> None:
        self._check_kinds()
        if self.objective not in TRADES:
            raise InvalidInput(f"joint.objective is {self.objective!r}", allowed=", ".join(TRADES))
        if not (np.isfinite(self.max_load_distance) and self.max_load_distance > 0):
            raise InvalidInput(
                f"joint.max_load_distance is {self.max_load_distance!r}", allowed="a number > 0"
            )
        if not all(np.isfinite(v) and v >= 0 for v in (self.traffic_weight, self.load_weight)):
            raise InvalidInput("joint's weights need numbers >= 0")
        check_parameters("joint", self)

    def _check_kinds(self) -> None:
        if self.precision not in PRECISIONS:
            raise InvalidInput(
                f"joint.precision is {self.precision!r}", allowed=", ".join(PRECISIONS)
            )
        kinds = (("costs", TrafficCosts), ("gate", AmortisationGate), ("target", TargetMemory))
        for name, kind in kinds:
            value = getattr(self, name)
            if not (isinstance(value, kind) or (value is None and name != "costs")):
                raise InvalidInput(f"joint.{name} is {value!r}", allowed=f"a {kind.__name__}")
        if not isinstance(self.from_scratch, bool):
            raise InvalidInput(
                f"joint.from_scratch is {self.from_scratch!r}", allowed="true or false"
            )
