"""The costs of traffic: load for every record that is serialised, and a price by distance.

Collocation lowers load because a record between two key groups of one node is neither serialised
nor deserialised [ICDE17, 4.3.2]. The cost of one record is measured: all defaults here are
zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import FloatArray, Problem


@dataclass(frozen=True, slots=True)
class TrafficCosts:
    """The load and the price of a record.

    ``send`` and ``receive``: load per record sent to, and received from, another node, one number
    per resource, in the unit of the problem's load per unit of its rate; empty means none.

    The prices depend on the distance of a record. Only their ratios matter.
    """

    send: tuple[float, ...] = ()
    receive: tuple[float, ...] = ()
    within_node: float = 0.0
    within_rack: float = 1.0
    between_racks: float = 1.0

    def __post_init__(self) -> None:
        for name in ("send", "receive"):
            values = tuple(float(v) for v in getattr(self, name))
            if not all(math.isfinite(v) and v >= 0 for v in values):
                raise InvalidInput(f"costs.{name} is {values}", allowed="numbers >= 0")
            object.__setattr__(self, name, values)
        prices = (self.within_node, self.within_rack, self.between_racks)
        is_ordered = prices[0] <= prices[1] <= prices[2] and prices[0] < prices[2]
        if not all(map(math.isfinite, prices)) or prices[0] < 0 or not is_ordered:
            raise InvalidInput(
                f"the prices of a record are {prices}",
                allowed="0 <= within_node <= within_rack <= between_racks, not all equal",
            )

    @property
    def has_racks(self) -> bool:
        return self.within_rack < self.between_racks

    @property
    def saved_by_node(self) -> float:
        return self.between_racks - self.within_node

    @property
    def saved_by_rack(self) -> float:
        return self.between_racks - self.within_rack

    def per_resource(self, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """Return [R] each: send and receive, zeros by default."""
        return _filled("send", self.send, problem), _filled("receive", self.receive, problem)


def _filled(name: str, values: tuple[float, ...], problem: Problem) -> FloatArray:
    if not values:
        return np.zeros(problem.n_resources)
    if len(values) != problem.n_resources:
        raise InvalidInput(
            f"costs.{name} has {len(values)} numbers",
            allowed=f"one per resource, {problem.n_resources}",
        )
    return np.array(values)
