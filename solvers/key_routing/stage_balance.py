"""Load of servers in shares of what the balance bound allows, under several views of the load.

A view is what one memory says of the keys: the last period alone, or also older ones that count
less. The next period is none of them, so a plan keeps the bound in each.
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
    """``share[vertex, view]``: records of a key over what a server of its stage may have."""

    share: FloatArray
    n_servers: int

    @classmethod
    def of(
        cls, graph: KeyGraph, n_servers: int, imbalance: float, views: FloatArray | None = None
    ) -> StageBalance:
        """``views[vertex, view]`` in records; without them the graph's weights are the only one."""
        weight = graph.weight[:, None] if views is None else views
        if weight.shape[0] != graph.n_vertices:
            raise InvalidInput(f"views of {weight.shape[0]} keys for {graph.n_vertices}")
        share = np.zeros(weight.shape, dtype=np.float64)
        for side in (LEFT, RIGHT):
            stage = graph.stage(side)
            share[stage] = _shares(weight[stage], n_servers, imbalance)
        return cls(share, n_servers)

    def load(self, server: IntArray, vertices: slice | IntArray) -> FloatArray:
        """[servers, views]: of these vertices, of one stage, on the servers given for them."""
        columns = self.share[vertices].T
        return np.stack([sum_by(server, column, self.n_servers) for column in columns], axis=1)

    def excess(self, graph: KeyGraph, server: IntArray) -> float:
        """By how much the fullest server is above the bound, as a share of it."""
        stages = [graph.stage(side) for side in (LEFT, RIGHT)]
        most = max(float(self.load(server[s], s).max(initial=0.0)) for s in stages)
        return max(0.0, most - 1.0)


def _shares(weight: FloatArray, n_servers: int, imbalance: float) -> FloatArray:
    """A key heavier than its fair share cannot be split: it may fill a server by itself."""
    mean = weight.sum(axis=0) / n_servers
    cap = np.maximum(imbalance * mean, weight.max(axis=0, initial=0.0)) * ROUNDING
    share: FloatArray = np.divide(weight, cap, out=np.zeros_like(weight), where=cap > 0)
    return share
