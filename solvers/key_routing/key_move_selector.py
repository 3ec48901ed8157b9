"""Selects the keys of an edge that can move while nodes and stages keep their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.key_map import KeyMap, KeyMoves, key_group_indices
from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.key_shares import KeyShares
from solvers.key_routing.node_load_limits import (
    KeyPartners,
    LoadLimits,
    MoveEffects,
    select_feasible,
)
from solvers.key_routing.stage_balance import StageBalance
from solvers.model import metrics
from solvers.model.amortisation import AmortisationGate
from solvers.model.key_statistics import RoutedEdge
from solvers.model.problem import IntArray, Problem


@dataclass(frozen=True, slots=True)
class KeyMoveSelector:
    """The keys of an edge under a placement of the key groups. All nodes have one capacity.

    Attributes:
        problem: The problem with loads under the plan so far.
        assignment: [key groups] Node of each key group.
        allowed_distance: Load distance in percent; infinite for a weighted objective.
        gate: Decides whether a key's gain pays for moving its state.
        memory: Statistics of the edge over several periods.
        edge: Operators of the two ends.
        imbalance: Most records of a node over the mean, for each stage.
        now: Key groups of keys under the plan so far.
        in_force: Shares of keys by the routes before the plan.
    """

    problem: Problem
    assignment: IntArray
    allowed_distance: float
    gate: AmortisationGate | None
    memory: KeyMemory
    edge: RoutedEdge
    imbalance: float
    now: KeyMap
    in_force: KeyShares

    def select(self, wanted: Sequence[KeyMoves]) -> Sequence[KeyMoves]:
        """Return the wanted keys that keep load distance, caps and the balance of both stages."""
        vertices = self._vertices(wanted)
        before = self.assignment[key_group_indices(self._graph, self.now, self.edge)]
        target = self.assignment[[moves[0].target for moves in wanted]]
        partners = KeyPartners(self._graph, before, vertices, target)
        effects = self._effects(wanted, partners)
        limits = self._node_limits().beside(self._stage_limits(before))
        moving = select_feasible(effects, limits, len(wanted), partners.lost)
        if moving.all():
            return wanted
        # A key whose partner stays may no longer pay; it stays too if the limits allow that.
        gain = partners.lost(moving)
        pays = np.array([self._pays(gain[i], moves) for i, moves in enumerate(wanted)], dtype=bool)
        if limits.allow(effects.load(limits, moving & pays)):
            moving = moving & pays
        return [moves for moves, goes in zip(wanted, moving, strict=True) if goes]

    @property
    def _graph(self) -> KeyGraph:
        return self.memory.balance_views[0]

    def _pays(self, gain: float, moves: KeyMoves) -> bool:
        return self.gate is None or self.gate.pays(float(gain), sum(move.bytes for move in moves))

    def _vertices(self, wanted: Sequence[KeyMoves]) -> IntArray:
        graph = self._graph
        left = {key: i for i, key in enumerate(graph.keys[: graph.n_left])}
        right = {key: graph.n_left + i for i, key in enumerate(graph.keys[graph.n_left :])}
        vertices = [
            (left if moves[0].operator in self.edge.left else right)[moves[0].key.encode()]
            for moves in wanted
        ]
        return np.array(vertices, dtype=np.int64)

    def _node_limits(self) -> LoadLimits:
        """Return limits of the nodes: the allowed distance from the mean load, and their caps."""
        problem = self.problem
        mean = metrics.mean_load(problem)
        is_bound = (
            problem.balanced_mask & (problem.weights > 0) & np.isfinite(self.allowed_distance)
        )
        slack = np.full_like(mean, np.inf)
        np.divide(self.allowed_distance / 100 * mean, problem.weights, out=slack, where=is_bound)
        load = metrics.node_loads(problem, self.assignment)
        # A node above its cap before the plan may keep that load.
        most = np.minimum(mean + slack, self.now.problem.cap_limit / problem.capacity)
        return LoadLimits(load, np.broadcast_to(mean - slack, load.shape), most)

    def _stage_limits(self, before: IntArray) -> LoadLimits:
        """Return limits of both stages in every view: the bound, or the imbalance before."""
        graph, balance = self._graph, self._balance()
        stages = [graph.stage(side) for side in (LEFT, RIGHT)]
        load = np.hstack([balance.load(before[stage], stage) for stage in stages])
        most = np.maximum(1.0, load.max(axis=0, initial=0.0))
        return LoadLimits(load, np.full_like(load, -np.inf), np.broadcast_to(most, load.shape))

    def _balance(self) -> StageBalance:
        graph, views = self.memory.balance_views
        return StageBalance.of(graph, self.problem.n_nodes, self.imbalance, views)

    def _effects(self, wanted: Sequence[KeyMoves], partners: KeyPartners) -> MoveEffects:
        """Return the effects, in the columns of :meth:`_node_limits` and :meth:`_stage_limits`."""
        share, n_left = self._balance().share, self._graph.n_left
        capacity, n_resources = self.problem.capacity[0], self.problem.n_resources
        entries: list[tuple[int, int, int, int, float]] = []
        for key, moves in enumerate(wanted):
            vertex, node = int(partners.vertex[key]), int(partners.node[key])
            for move in moves:
                source = int(self.assignment[move.source])
                taken = self.in_force.load(move.operator, move.key) / capacity
                entries += [(key, r, source, node, float(part)) for r, part in enumerate(taken)]
            first = n_resources + (0 if vertex < n_left else share.shape[1])
            source = int(partners.before[vertex])
            entries += [
                (key, first + view, source, node, float(part))
                for view, part in enumerate(share[vertex])
            ]
        keys, columns, sources, targets, amounts = zip(*entries, strict=True)
        return MoveEffects(
            np.array(keys), np.array(columns), np.array(sources), np.array(targets),
            np.array(amounts, dtype=np.float64),
        )  # fmt: skip
