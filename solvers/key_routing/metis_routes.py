"""Routes by METIS [MW16-LOCALITY, 3.3], and routing tables for two neighbouring stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.collocate.partition import partition
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.routing_table import RoutingTable
from solvers.model.problem import FloatArray, IntArray

IMBALANCE = 1.03
"""METIS's balance constraint in [MW16-LOCALITY]."""


@dataclass(frozen=True, eq=False, slots=True)
class Routes:
    """One routing table for each of the two stages."""

    left: RoutingTable
    right: RoutingTable

    @classmethod
    def hashed(cls, n_servers: int) -> Routes:
        """Return tables without entries: every key goes by hash."""
        return cls(RoutingTable.hashed(n_servers), RoutingTable.hashed(n_servers))

    @classmethod
    def of(
        cls, graph: KeyGraph, server: IntArray, n_servers: int, max_keys: int | None = None
    ) -> Routes:
        """Return tables of at most ``max_keys`` entries each, the heaviest keys first."""
        tables = []
        for side in (LEFT, RIGHT):
            stage = graph.stage(side)
            keys = graph.keys[stage]
            assigned = dict(zip(keys, server[stage].tolist(), strict=True))
            weights = dict(zip(keys, graph.weight[stage].tolist(), strict=True))
            tables.append(RoutingTable.build(n_servers, assigned, weights, max_keys))
        return cls(*tables)

    @property
    def n_servers(self) -> int:
        return self.left.n_servers

    def servers_of(self, graph: KeyGraph) -> IntArray:
        """Return [vertices]: the server of each key of the graph."""
        return np.concatenate(
            (
                self.left.route_many(graph.keys[graph.stage(LEFT)]),
                self.right.route_many(graph.keys[graph.stage(RIGHT)]),
            )
        )


def metis_routes(
    graph: KeyGraph, n_servers: int, *, imbalance: float = IMBALANCE, seed: int = 0
) -> IntArray:
    """Partition the key graph into one part per server, with level sums of weights.

    Returns:
        [vertices] The part of each key.
    """
    return partition(graph.as_traffic(), graph.weight, n_servers, imbalance=imbalance, seed=seed)


def match_labels(graph: KeyGraph, server: IntArray, before: IntArray, n_servers: int) -> IntArray:
    """Rename the parts so that more state stays, because METIS numbers them freely.

    The largest overlap is matched first. That is not always the best matching, but the result is
    never worse than without renaming.
    """
    overlap: FloatArray = np.zeros((n_servers, n_servers))
    np.add.at(overlap, (server, before), graph.state)
    name = np.full(n_servers, -1, dtype=np.int64)
    taken = np.zeros(n_servers, dtype=bool)
    for flat in np.argsort(-overlap, axis=None, kind="stable").tolist():
        part, old = divmod(flat, n_servers)
        if name[part] < 0 and not taken[old]:
            name[part], taken[old] = old, True
    renamed = name[server]
    stays = float(graph.state[renamed == before].sum())
    return renamed if stays >= float(graph.state[server == before].sum()) else server
