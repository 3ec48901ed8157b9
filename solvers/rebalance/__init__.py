"""Rebalance key groups over nodes under a migration budget: one file per method.

A new method is one new file with ``NAME`` and ``solve``, and one line in ``METHODS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.rebalance import auto, flux, milp, search, unchanged


class Method(Protocol):
    """What every method looks like."""

    def __call__(
        self, problem: Problem, budget: Budget, stop: Stop, seed: int, params: Mapping[str, Any]
    ) -> Result: ...


METHODS: Mapping[str, Method] = {
    auto.NAME: auto.solve,
    search.NAME: search.solve,
    milp.NAME: milp.solve,
    flux.NAME: flux.solve,
    unchanged.NAME: unchanged.solve,
}
