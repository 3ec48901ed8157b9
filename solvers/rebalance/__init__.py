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
    """A method: its ``solve`` and the dataclass of its parameters.

    Every ``solve`` has the same signature and meaning:

    Args:
        problem: Nodes, key groups, loads and the current assignment.
        budget: Limits on the moves that are not forced.
        stop: Limits of seconds and steps; without any, the method runs until it is done.
        seed: Seed of the random numbers. The same seed and steps give the same plan.
        params: Parameters of the method.

    Returns:
        The plan with its figures, its bound and its trace. A problem that no assignment solves
        has the status ``infeasible`` and the reason.

    Raises:
        InvalidInput: A parameter does not fit the problem (only the MILP's ``start``).
    """

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
