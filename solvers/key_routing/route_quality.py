"""Locality and imbalance of routes, by exact counts of a period."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.model.problem import IntArray


@dataclass(frozen=True, slots=True)
class RouteQuality:
    """Quality of routes.

    Attributes:
        locality: Percent of records whose next hop is on the same server, hashed keys included.
        imbalance: Most records of a server over the mean, of the worse stage.
    """

    locality: float
    imbalance: float


def quality(graph: KeyGraph, server: IntArray, n_servers: int) -> RouteQuality:
    """Return the quality of a period whose keys went to these servers."""
    total = float(graph.edge_weight.sum())
    locality = 100.0 * graph.local_weight(server) / total if total > 0 else 0.0
    worst = 1.0
    for side in (LEFT, RIGHT):
        stage = graph.stage(side)
        load = np.bincount(server[stage], weights=graph.weight[stage], minlength=n_servers)
        if load.sum() > 0:
            worst = max(worst, float(load.max() / load.mean()))
    return RouteQuality(locality, worst)
