"""The parameters of the joint search."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.collocate.target_memory import TargetMemory
from solvers.model.amortisation import AmortisationGate
from solvers.model.objective import LEXICOGRAPHIC, TRADES
from solvers.model.traffic_costs import TrafficCosts


@dataclass(frozen=True, slots=True)
class JointParams:
    """``max_load_distance`` is in percent of the mean, as the design defines load distance. In
    weighted mode it bounds nothing: it is where the search for the best trade begins.

    ``traffic_weight`` is per percent of traffic saved, ``load_weight`` per percent of load
    distance (weighted mode). ``target`` is what the round before handed back.
    ``from_scratch``: a placement from nothing (COLA) is a candidate too.
    """

    max_load_distance: float = 10.0
    objective: str = LEXICOGRAPHIC
    traffic_weight: float = 1.0
    load_weight: float = 1.0
    costs: TrafficCosts = field(default_factory=TrafficCosts)
    gate: AmortisationGate | None = None
    score_factor: float = 1.5
    target_bonus: float = 0.5
    drain_worth: float = 1.0
    propose_every: int = 5
    passes: int = 12
    target: TargetMemory | None = None
    from_scratch: bool = False

    def __post_init__(self) -> None:
        for name, kind in (
            ("costs", TrafficCosts),
            ("gate", AmortisationGate),
            ("target", TargetMemory),
        ):
            value = getattr(self, name)
            if not (isinstance(value, kind) or (value is None and name != "costs")):
                raise InvalidInput(f"joint.{name} is {value!r}", allowed=f"a {kind.__name__}")
        if self.objective not in TRADES:
            raise InvalidInput(f"joint.objective is {self.objective!r}", allowed=", ".join(TRADES))
        if not (np.isfinite(self.max_load_distance) and self.max_load_distance > 0):
            raise InvalidInput(
                f"joint.max_load_distance is {self.max_load_distance!r}", allowed="a number > 0"
            )
        numbers = (self.traffic_weight, self.load_weight, self.score_factor, self.target_bonus)
        if not all(np.isfinite(v) and v >= 0 for v in (*numbers, self.drain_worth)):
            raise InvalidInput("joint's weights and factors need numbers >= 0")
        if not isinstance(self.from_scratch, bool):
            raise InvalidInput(
                f"joint.from_scratch is {self.from_scratch!r}", allowed="true or false"
            )
        if self.propose_every < 1 or self.passes < 0:
            raise InvalidInput("joint.propose_every needs >= 1 and joint.passes >= 0")
