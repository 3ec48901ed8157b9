"""What a plan is for: the word that policies, problem folders, solvers and the verifier share."""

from __future__ import annotations

from dataclasses import dataclass, field

from ballast.contracts.errors import InvalidInput
from solvers.checks import is_finite
from solvers.collocate.costs import TrafficCosts
from solvers.collocate.gate import Gate

BALANCE, JOINT = "balance", "joint"
OBJECTIVES = (BALANCE, JOINT)
DEFAULT_MAX_LOAD_DISTANCE = 10.0


@dataclass(frozen=True, slots=True)
class Objective:
    """*balance*: the least load distance. *joint*: the most traffic that stays within nodes, with
    the load distance at most ``max_load_distance`` percent of the mean.

    ``costs`` and ``gate`` are a joint plan's alone: what a record between nodes costs, by which
    the load under the plan is predicted, and what a move has to earn (no gate: nothing)."""

    kind: str = BALANCE
    max_load_distance: float = DEFAULT_MAX_LOAD_DISTANCE
    costs: TrafficCosts = field(default_factory=TrafficCosts)
    gate: Gate | None = None

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
