"""The plain model of [ICDE17, 4.3.1], written with PuLP, for the two solvers that PuLP calls.

It is the printed model with the changes that make it solvable (docs/papers.md): d_u and d_l are >=
0, and constraint (5) is dropped. Constraint (2) is written over the key groups that stay, which is
equivalent and has a fraction of the terms. It has no start, no cuts, and no bound of Ballast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bench.rebalance.peers.exchange import Instance

SECOND_WEIGHT = 1e-3
"""w2 where w1 = 1: below a half, so that no spread is worth a larger d."""


class PlainModel:
    """The model, and the conversion of its values to an assignment."""

    def __init__(self, instance: Instance) -> None:
        import pulp

        self.instance = instance
        self.lp = pulp.LpProblem("rebalance", pulp.LpMinimize)
        groups, nodes = range(instance.n_key_groups), range(instance.n_nodes)
        self.x = [[pulp.LpVariable(f"x_{k}_{i}", cat=pulp.LpBinary) for i in nodes] for k in groups]
        self.d, self.upper, self.lower = (
            pulp.LpVariable(name, lowBound=0) for name in ("d", "d_u", "d_l")
        )
        self.lp.setObjective(self.d - SECOND_WEIGHT * (self.upper + self.lower))
        self._place_each_once()
        self._stay_in_budget()
        self._keep_near_the_mean()

    def _row(self, terms: list[tuple[Any, float]], sense: int, right: float) -> None:
        import pulp

        self.lp.addConstraint(
            pulp.LpConstraint(pulp.LpAffineExpression(terms), sense=sense, rhs=right)
        )

    def _place_each_once(self) -> None:
        import pulp

        for row in self.x:
            self._row([(v, 1.0) for v in row], pulp.LpConstraintEQ, 1.0)

    def _stay_in_budget(self) -> None:
        import pulp

        limit = self.instance.move_cost()
        if limit is None:
            return
        cost, budget = limit
        # A budget of bytes is in units of the budget, so that tolerances are small.
        unit = 1.0 if self.instance.moves is not None else float(budget)
        here = self.instance.current.tolist()
        terms = [(self.x[k][i], float(cost[k]) / unit) for k, i in enumerate(here)]
        self._row(terms, pulp.LpConstraintGE, float(cost.sum() - budget) / unit)

    def _keep_near_the_mean(self) -> None:
        import pulp

        shares = self.instance.fair_share()
        for r in range(self.instance.load.shape[1]):
            for i in range(self.instance.n_nodes):
                weights = (self.instance.load[:, r] / shares[i, r]).tolist()
                terms = [(row[i], w) for row, w in zip(self.x, weights, strict=True)]
                above = [(self.d, -1.0), (self.upper, 1.0)]
                below = [(self.d, 1.0), (self.lower, -1.0)]
                self._row(terms + above, pulp.LpConstraintLE, 1.0)
                self._row(terms + below, pulp.LpConstraintGE, 1.0)

    def assignment(self) -> npt.NDArray[np.int64] | None:
        """The node of each key group; None if the values are no plan."""
        values = np.array([[v.varValue or 0.0 for v in row] for row in self.x])
        if not bool(np.all(np.abs(values.max(axis=1) - 1.0) < 1e-3)):
            return None
        return np.asarray(values.argmax(axis=1), dtype=np.int64)
