"""Rebalance key groups over nodes under a migration budget: one file per method.

A new method is one new file with ``NAME``, a dataclass of its parameters and ``solve``, and one
line in ``METHODS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.rebalance import auto, fewest_moves, flux, milp, search, unchanged


@dataclass(frozen=True, slots=True)
class RebalanceMethod:
    """A method: its function, and the dataclass of the parameters that the function takes."""

    solve: Callable[[Problem, Budget, Stop, int, Any], Result]
    params: type[Any]

    def solve_with_defaults(
        self, problem: Problem, budget: Budget, stop: Stop, seed: int
    ) -> Result:
        """Solve with the default parameters of the method."""
        return self.solve(problem, budget, stop, seed, self.params())


METHODS: Mapping[str, RebalanceMethod] = {
    auto.NAME: RebalanceMethod(auto.solve, auto.AutoParams),
    search.NAME: RebalanceMethod(search.solve, search.SearchParams),
    milp.NAME: RebalanceMethod(milp.solve, milp.MilpParams),
    flux.NAME: RebalanceMethod(flux.solve, flux.FluxParams),
    fewest_moves.NAME: RebalanceMethod(fewest_moves.solve, fewest_moves.FewestMovesParams),
    unchanged.NAME: RebalanceMethod(unchanged.solve, unchanged.UnchangedParams),
}
