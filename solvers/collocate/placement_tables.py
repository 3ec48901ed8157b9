"""Fixed lookups of a placement: traffic, rules and costs that no move changes.

Lists and dictionaries instead of arrays, because the search reads single entries.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from solvers.model.budget import Budget
from solvers.model.metrics import CAP_TOLERANCE, forced_mask
from solvers.model.pause import move_pause_s
from solvers.model.predicted_load import serialisation_costs
from solvers.model.problem import IntArray, Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph


class PlacementTables:
    """Lookups by key group k, node i and resource r."""

    def __init__(
        self, problem: Problem, graph: TrafficGraph, costs: TrafficCosts, budget: Budget
    ) -> None:
        self.problem, self.graph, self.costs, self.budget = problem, graph, costs, budget
        self._set_traffic()
        self._set_rules()
        self._set_loads()

    def _set_traffic(self) -> None:
        problem, graph = self.problem, self.graph
        _, send, receive = serialisation_costs(problem, graph, self.costs)
        self.has_racks, self.node_price = self.costs.has_racks, self.costs.saved_by_node
        self.has_serialisation = bool(send.any() or receive.any())
        self.send, self.receive = send.T.tolist(), receive.T.tolist()  # [R][G]
        self.partners = _rows_of(graph.indptr, graph.partner)
        self.rates_out = _rows_of(graph.indptr, graph.rate_out)
        self.rates_in = _rows_of(graph.indptr, graph.rate_in)
        racks = {name: i for i, name in enumerate(dict.fromkeys(problem.rack))}
        self.rack_of = [racks[name] for name in problem.rack]

    def _set_rules(self) -> None:
        problem = self.problem
        self.home: list[int] = problem.current.tolist()
        self.is_staying: list[bool] = problem.staying.tolist()
        self.is_dead: list[bool] = problem.dead.tolist()
        self.is_forced: list[bool] = forced_mask(problem).tolist()
        self.is_pinned: list[bool] = problem.pinned_mask.tolist()
        self.bytes_of: list[int] = problem.state_bytes.tolist()
        self.pause_of: list[float] = move_pause_s(problem).tolist()
        self.allowed: dict[int, frozenset[int]] = {}
        if problem.allowed is not None:
            for k in np.flatnonzero(problem.allowed.restricted).tolist():
                self.allowed[k] = frozenset(problem.allowed.row(k).tolist())

    def _set_loads(self) -> None:
        problem = self.problem
        self.capacity = problem.capacity.T.tolist()  # [R][N]
        # A resource that is a cap has no weight in the load distance.
        self.weight = np.where(problem.balanced_mask, problem.weights, 0.0).tolist()
        self.balanced = np.flatnonzero(problem.balanced_mask).tolist()
        self.capped = np.flatnonzero(~problem.balanced_mask).tolist()
        self.cap = (problem.cap_limit * (1.0 + CAP_TOLERANCE)).T.tolist()  # [R][N]
        self.room = problem.capacity[problem.staying].sum(axis=0).tolist()

    def may_be_on(self, k: int, node: int) -> bool:
        """Check pins and allowed nodes; nothing new may come to a draining or dead node."""
        if node == self.home[k]:
            return not self.is_dead[node] and (k not in self.allowed or node in self.allowed[k])
        if self.is_pinned[k] or not self.is_staying[node]:
            return False
        return k not in self.allowed or node in self.allowed[k]


def _rows_of(indptr: IntArray, values: npt.NDArray[Any]) -> list[list[Any]]:
    flat, ends = values.tolist(), indptr.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(ends)]
