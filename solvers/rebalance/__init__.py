"""Rebalance key groups over nodes under a migration budget: one file per method.

A new method is one new file with ``METHOD``, and one line in ``METHODS``.
"""

from __future__ import annotations

from collections.abc import Mapping

from solvers.model.method import RebalanceMethod, by_name
from solvers.rebalance import auto, fewest_moves, flux, milp, search, unchanged

METHODS: Mapping[str, RebalanceMethod] = by_name(
    auto.METHOD,
    search.METHOD,
    milp.METHOD,
    flux.METHOD,
    fewest_moves.METHOD,
    unchanged.METHOD,
)
