"""Load of servers as shares of the balance bound, in several views of the load.

A view is the load by one decay of the statistics: the last period alone, or older periods with
less weight. The next period equals none of them, so a plan keeps the bound in every view.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.model.problem import FloatArray, IntArray
from solvers.model.traffic_graph import sum_by

ROUNDING = 1 + 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class StageBalance:
    """Shares of the balance bound.

    Attributes:
        share: [vertices, views] Records of a key over what a server of its stage may have.
        n_servers: Number of servers.
    """

    share: FloatArray
    n_servers: int

    @classmethod
    def of(
        cls, graph: KeyGraph, n_servers: int, imbalance: float, views: FloatArray | None = None
    ) -> StageBalance:
        """Return the shares of ``views`` [vertices, views] in records, or of the graph's weights.

        Raises:
            InvalidInput: ``views`` has other keys than the graph.
        """
        weight = graph.weight[:, None] if views is None else views
        if weight.shape[0] != graph.n_vertices:
            raise InvalidInput(f"views of {weight.shape[0]} keys for {graph.n_vertices}")
        share = np.zeros(weight.shape, dtype=np.float64)
        for side in (LEFT, RIGHT):
            stage = graph.stage(side)
            share[stage] = _shares(weight[stage], n_servers, imbalance)
        return cls(share, n_servers)

    def load(self, server: IntArray, vertices: slice | IntArray) -> FloatArray:
        """Return [servers, views]: the load of these vertices of one stage on their servers."""
        columns = self.share[vertices].T
        return np.stack([sum_by(server, column, self.n_servers) for column in columns], axis=1)

    def excess(self, graph: KeyGraph, server: IntArray) -> float:
        """Return by how much the fullest server is above the bound, as a share of the bound."""
        stages = [graph.stage(side) for side in (LEFT, RIGHT)]
        most = max(float(self.load(server[s], s).max(initial=0.0)) for s in stages)
        return max(0.0, most - 1.0)


def _shares(weight: FloatArray, n_servers: int, imbalance: float) -> FloatArray:
    """Return the shares of one stage. A key above the bound may fill a server alone."""
    mean = weight.sum(axis=0) / n_servers
    cap = np.maximum(imbalance * mean, weight.max(axis=0, initial=0.0)) * ROUNDING
    share: FloatArray = np.divide(weight, cap, out=np.zeros_like(weight), where=cap > 0)
    return share
