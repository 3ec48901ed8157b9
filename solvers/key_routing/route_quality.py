"""Locality and imbalance of routes on what really came (design, "Words")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.metis_routes import Routes
from solvers.model.problem import IntArray


@dataclass(frozen=True, slots=True)
class RouteQuality:
    """``locality``: percent of records whose next hop is on the same server, keys that go by
    hash included. ``imbalance``: most over mean records per server, the worse stage."""

    locality: float
    imbalance: float


def quality(graph: KeyGraph, server: IntArray, n_servers: int) -> RouteQuality:
    """On exact counts of a period, given where each key was routed."""
    total = float(graph.edge_weight.sum())
    locality = 100.0 * graph.local_weight(server) / total if total > 0 else 0.0
    worst = 1.0
    for side in (LEFT, RIGHT):
        stage = graph.stage(side)
        load = np.bincount(server[stage], weights=graph.weight[stage], minlength=n_servers)
        if load.sum() > 0:
            worst = max(worst, float(load.max() / load.mean()))
    return RouteQuality(locality, worst)


def route_quality(graph: KeyGraph, routes: Routes) -> RouteQuality:
    return quality(graph, routes.servers_of(graph), routes.n_servers)
