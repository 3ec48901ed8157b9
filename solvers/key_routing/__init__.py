"""Routes for single keys [MW16-LOCALITY]: pair statistics, key graph, search, routing tables.

``route_planner.plan_key_routes`` adds routes to a plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from ballast.contracts.methods import MethodNeed
from solvers.model.method import MethodFacts, by_name

METHODS: Mapping[str, MethodFacts] = by_name(
    MethodFacts(
        name="sticky",
        summary="searches for routes whose gain pays for the state that moves, under every decay",
        needs=(MethodNeed.KEY_PAIRS,),
    ),
)
"""The methods by name. Their parameters are those of ``routing`` in the policy."""
