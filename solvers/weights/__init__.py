"""Weights of a stateless ordered region ([MW16-REGIONS]).

Two pure functions: ``weights_from(history, params)`` uses the blocking rates of the connections, as
in the paper; ``weights_from_service(history, params)`` uses the workers' true rates (ADR 38).
"""

from __future__ import annotations

from collections.abc import Mapping

from ballast.contracts.methods import MethodNeed
from ballast.contracts.regions import UNITS
from solvers.model.method import MethodFacts, by_name
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
    "METHODS",
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

METHODS: Mapping[str, MethodFacts] = by_name(
    MethodFacts(
        name="service",
        summary="shares records by the service rate of each worker",
        needs=(MethodNeed.REGIONS,),
    ),
    MethodFacts(
        name="blocking",
        summary="shares records so that the most blocked connection blocks least",
        paper="MW16-REGIONS, 5",
        needs=(MethodNeed.REGIONS,),
    ),
)
"""The methods by the name that the policy of a region has for them. Their parameters are those of
the region."""
