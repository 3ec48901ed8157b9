"""Routes for single keys [MW16-LOCALITY]: pair statistics, key graph, search, routing tables.

``route_planner.plan_key_routes`` adds routes to a plan. A new method is an entry in ``METHODS`` and
a case of ``rerouting.wanted_servers``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ballast.contracts.methods import MethodLimit, MethodNeed
from solvers.model.method import MethodFacts, by_name

STICKY, METIS = "sticky", "metis"

METHODS: Mapping[str, MethodFacts] = by_name(
    MethodFacts(
        name=STICKY,
        summary="searches for routes whose gain pays for the state that moves, under every decay",
        needs=(MethodNeed.KEY_PAIRS,),
    ),
    MethodFacts(
        name=METIS,
        summary=(
            "partitions the graph of key pairs by METIS with imbalance 1.03, and renames the parts "
            "so that less state moves"
        ),
        paper="MW16-LOCALITY, 3.3",
        needs=(MethodNeed.KEY_PAIRS,),
        cannot=(MethodLimit.BUDGET,),
    ),
)
"""The methods by name. Their parameters are those of ``routing`` in the policy."""
