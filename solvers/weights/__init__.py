"""Weights of a stateless ordered region ([MW16-REGIONS]).

Two pure functions: ``weights_from(history, params)`` uses the blocking rates of the connections, as
in the paper; ``weights_from_service(history, params)`` uses the workers' true rates (ADR 38).
"""

from __future__ import annotations

from ballast.contracts.regions import UNITS
from solvers.weights.blocking_rate_weights import (
    BlockingHistory,
    BlockingParams,
    RegionWeights,
    weights_from,
)
from solvers.weights.service_rate_weights import (
    ServiceHistory,
    ServiceParams,
    ServiceWeights,
    weights_from_service,
)

__all__ = [
    "UNITS",
    "BlockingHistory",
    "BlockingParams",
    "RegionWeights",
    "ServiceHistory",
    "ServiceParams",
    "ServiceWeights",
    "weights_from",
    "weights_from_service",
]
