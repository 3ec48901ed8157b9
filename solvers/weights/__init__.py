"""Weights of a stateless ordered region, from the blocking rates of its connections (seed 001).

``weights_from(history, params) -> Weights`` is pure and is all that a caller needs.
"""

from __future__ import annotations

from solvers.weights.weights import UNITS, BlockingHistory, Params, Weights, weights_from

__all__ = ["UNITS", "BlockingHistory", "Params", "Weights", "weights_from"]
