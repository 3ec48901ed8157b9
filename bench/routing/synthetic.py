"""[MW16-LOCALITY, 4.2]: keys of 1 to n on n servers, equal in 60, 80 or 100 % of the records.

The paper prints the share of the records that its tables keep local (the locality itself), and 1 /
n for hashing (3.2). Its measurements there are of throughput, which needs a cluster and is not
repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.routing.methods import pairs_alone
from bench.routing.streams import synthetic
from solvers.key_routing.decayed_statistics import routed_by
from solvers.key_routing.key_graph import KeyGraph
from solvers.key_routing.metis_routes import Routes, metis_routes
from solvers.key_routing.route_quality import quality
from solvers.key_routing.sticky_search import CurrentServers, StickyParams, sticky_routes
from solvers.model.problem import IntArray

SERVERS = (1, 2, 3, 4, 5, 6)
LOCALITIES = (60.0, 80.0, 100.0)
RECORDS = 20_000
"""Number of records in the first period; as many follow in the second one."""
SAMPLING_ERRORS = 4.0
"""Standard errors by which a drawn share may differ from its expectation."""


@dataclass(frozen=True)
class SyntheticCell:
    """Percent of local records among those served after learning."""

    servers: int
    locality: float
    hashed: float
    papers: float
    ours: float
    ours_imbalance: float

    @property
    def printed(self) -> float:
        """Return the locality by the tables of 4.2; with one server everything is local."""
        return 100.0 if self.servers == 1 else self.locality

    @property
    def least(self) -> float:
        """Return the printed share less the error of the draw."""
        share = self.printed / 100.0
        return self.printed - 100.0 * SAMPLING_ERRORS * float(
            np.sqrt(share * (1 - share) / RECORDS)
        )


def cell(servers: int, locality: float, seed: int) -> SyntheticCell:
    """Make a plan from one period, and measure it on another."""
    stream = synthetic(servers, locality, RECORDS, seed)
    learned = stream.periods[0].statistics(RECORDS)
    served = stream.periods[1].graph
    graph = KeyGraph.of(learned)
    by_hash = Routes.hashed(servers).servers_of(graph)
    new = np.zeros(graph.n_vertices, dtype=bool)
    ours = sticky_routes(
        graph, CurrentServers(by_hash, new, servers), StickyParams(), seed=seed
    ).server
    pairs = pairs_alone(learned)
    papers = metis_routes(pairs, servers, seed=seed)

    def local(planned: KeyGraph, plan: IntArray) -> tuple[float, float]:
        found = quality(served, routed_by(planned, plan, served, servers), servers)
        return found.locality, found.imbalance

    return SyntheticCell(
        servers,
        locality,
        local(graph, by_hash)[0],
        local(pairs, papers)[0],
        *local(graph, ours),
    )


def cells(seed: int) -> list[SyntheticCell]:
    return [cell(n, share, seed) for share in LOCALITIES for n in SERVERS]
