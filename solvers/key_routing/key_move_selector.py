"""Keys that want to move, measured against what nodes and stages may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.key_routing.feasible_moves import KeyPartners, LoadLimits, MoveEffects, select_feasible
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.key_map import KeyMap, KeyMoves, key_group_rows
from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.key_shares import KeyShares
from solvers.key_routing.stage_balance import StageBalance
from solvers.model import metrics
from solvers.model.amortisation import AmortisationGate
from solvers.model.key_statistics import RoutedEdge
from solvers.model.problem import IntArray, Problem


@dataclass(frozen=True, slots=True)
class KeyMoveSelector:
    """Keys of an edge under a placement of the key groups, where all nodes are alike."""

    problem: Problem
    """With loads as they are under the plan so far."""
    assignment: IntArray
    allowed_distance: float
    """Load distance in percent; infinite where it is weighed instead."""
    gate: AmortisationGate | None
    memory: KeyMemory
    edge: RoutedEdge
    imbalance: float
    now: KeyMap
    """Where keys are by the plan so far."""
    in_force: KeyShares
    """What keys take along, by where they are before the plan."""

    def select(self, wanted: Sequence[KeyMoves]) -> Sequence[KeyMoves]:
        """Those that may move: load distance, caps and stages stay as they have to."""
        vertices = self._vertices(wanted)
        before = self.assignment[key_group_rows(self._graph, self.now, self.edge)]
        target = self.assignment[[moves[0].target for moves in wanted]]
        partners = KeyPartners(self._graph, before, vertices, target)
        effects = self._effects(wanted, partners)
        limits = self._of_nodes().beside(self._of_stages(before))
        moving = select_feasible(effects, limits, len(wanted), partners.lost)
        if moving.all():
            return wanted
        # Some came for keys that now stay; those that no longer pay stay too, if balance lets them.
        gain = partners.lost(moving)
        pays = np.array([self._pays(gain[i], moves) for i, moves in enumerate(wanted)], dtype=bool)
        if limits.allow(effects.load(limits, moving & pays)):
            moving = moving & pays
        return [moves for moves, goes in zip(wanted, moving, strict=True) if goes]

    @property
    def _graph(self) -> KeyGraph:
        return self.memory.weighed[0]

    def _pays(self, gain: float, moves: KeyMoves) -> bool:
        return self.gate is None or self.gate.pays(float(gain), sum(move.bytes for move in moves))

    def _vertices(self, wanted: Sequence[KeyMoves]) -> IntArray:
        graph = self._graph
        left = {key: i for i, key in enumerate(graph.keys[: graph.n_left])}
        right = {key: graph.n_left + i for i, key in enumerate(graph.keys[graph.n_left :])}
        found = [
            (left if moves[0].operator in self.edge.left else right)[moves[0].key.encode()]
            for moves in wanted
        ]
        return np.array(found, dtype=np.int64)

    def _of_nodes(self) -> LoadLimits:
        """Loads of nodes: within the allowed distance of their mean, and within their caps."""
        problem = self.problem
        mean = metrics.mean_load(problem)
        is_bound = (
            problem.balanced_mask & (problem.weights > 0) & np.isfinite(self.allowed_distance)
        )
        slack = np.full_like(mean, np.inf)
        np.divide(self.allowed_distance / 100 * mean, problem.weights, out=slack, where=is_bound)
        load = metrics.node_loads(problem, self.assignment)
        # What a node may keep above its cap is what it had before the plan.
        most = np.minimum(mean + slack, self.now.problem.cap_limit / problem.capacity)
        return LoadLimits(load, np.broadcast_to(mean - slack, load.shape), most)

    def _of_stages(self, before: IntArray) -> LoadLimits:
        """Records of either end in every memory: within the bound, or no more uneven than now."""
        graph, balance = self._graph, self._balance()
        stages = [graph.stage(side) for side in (LEFT, RIGHT)]
        load = np.hstack([balance.load(before[stage], stage) for stage in stages])
        most = np.maximum(1.0, load.max(axis=0, initial=0.0))
        return LoadLimits(load, np.full_like(load, -np.inf), np.broadcast_to(most, load.shape))

    def _balance(self) -> StageBalance:
        graph, views = self.memory.weighed
        return StageBalance.of(graph, self.problem.n_nodes, self.imbalance, views)

    def _effects(self, wanted: Sequence[KeyMoves], partners: KeyPartners) -> MoveEffects:
        """In the columns of :meth:`_of_nodes`, then of :meth:`_of_stages`."""
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
