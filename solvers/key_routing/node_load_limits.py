"""Selects key moves that keep every node within its load limits.

Keys that a search found together are level together, but a part of them may not be. So keys are
sent back from nodes above a limit, or to nodes below one, until every node is within its limits.
The keys that lose least for the relief they give go first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.key_routing.key_graph import KeyGraph
from solvers.model.problem import BoolArray, FloatArray, IntArray
from solvers.model.traffic_graph import sum_by

ROUNDING = 1e-9
"""Relative to the largest limit of a column."""


@dataclass(frozen=True, eq=False, slots=True)
class LoadLimits:
    """Limits of each node, for each column: a resource, or the records of a stage in one view.

    Attributes:
        load: [nodes, columns] Load while no key moves.
        least: [nodes, columns] Least load that is allowed.
        most: [nodes, columns] Most load that is allowed.
    """

    load: FloatArray
    least: FloatArray
    most: FloatArray

    @property
    def scale(self) -> FloatArray:
        """[columns] The largest limit of each column."""
        finite = np.where(np.isfinite(self.most), np.abs(self.most), 0.0)
        scale: FloatArray = np.maximum(finite.max(axis=0, initial=0.0), np.finfo(np.float64).tiny)
        return scale

    def beyond(self, load: FloatArray) -> FloatArray:
        """Return [nodes, columns]: how far a load is outside, as a share of the largest limit."""
        outside: FloatArray = np.maximum(load - self.most, self.least - load) / self.scale
        return outside

    def allow(self, load: FloatArray) -> bool:
        """Return whether a load is within all limits."""
        return bool((self.beyond(load) <= ROUNDING).all())

    def beside(self, other: LoadLimits) -> LoadLimits:
        """Return both limits, with the columns of ``other`` last."""
        pairs = ((self.load, other.load), (self.least, other.least), (self.most, other.most))
        return LoadLimits(*(np.hstack(pair) for pair in pairs))


@dataclass(frozen=True, eq=False, slots=True)
class MoveEffects:
    """Load that keys take from node to node, one entry for each key, move and column.

    Attributes:
        key: Number of the key among the wanted ones.
        column: Column of the limits.
        source: Node that loses the load.
        target: Node that gets the load.
        amount: The load.
    """

    key: IntArray
    column: IntArray
    source: IntArray
    target: IntArray
    amount: FloatArray

    def load(self, limits: LoadLimits, moving: BoolArray) -> FloatArray:
        """Return [nodes, columns]: the load if these keys move."""
        on = moving[self.key]
        shape = limits.load.shape
        size = shape[0] * shape[1]
        arriving = sum_by(self.target[on] * shape[1] + self.column[on], self.amount[on], size)
        leaving = sum_by(self.source[on] * shape[1] + self.column[on], self.amount[on], size)
        load: FloatArray = limits.load + (arriving - leaving).reshape(shape)
        return load

    def relief(self, moving: BoolArray, column: int, at: IntArray, node: int) -> FloatArray:
        """Return [keys]: the load that each moves at ``node``; ``at`` is source or target."""
        on = moving[self.key] & (self.column == column) & (at == node)
        return sum_by(self.key[on], self.amount[on], len(moving))


def select_feasible(
    effects: MoveEffects, limits: LoadLimits, n_keys: int, lost: Callable[[BoolArray], FloatArray]
) -> BoolArray:
    """Select keys so that every node is within its limits.

    Args:
        effects: The load that the keys move.
        limits: The limits of the nodes.
        n_keys: Number of wanted keys.
        lost: Which keys move in; what is lost for each key if it alone did not move out.

    Returns:
        [keys] Whether each may move. None may if the nodes are outside of their limits already.
    """
    moving = np.ones(n_keys, dtype=bool)
    scale = limits.scale
    while moving.any():
        load = effects.load(limits, moving)
        beyond = limits.beyond(load)
        node, column = (int(i) for i in np.unravel_index(int(beyond.argmax()), beyond.shape))
        if beyond[node, column] <= ROUNDING:
            break
        is_over = load[node, column] > limits.most[node, column]
        ends = effects.target if is_over else effects.source
        relief = effects.relief(moving, column, ends, node)
        can = np.flatnonzero(relief > 0)
        if len(can) == 0:
            return np.zeros(n_keys, dtype=bool)
        price = lost(moving)[can] / relief[can]
        order = can[np.argsort(price, kind="stable")]
        excess = float(beyond[node, column] * scale[column])
        enough = int(np.searchsorted(np.cumsum(relief[order]), excess)) + 1
        moving[order[:enough]] = False
    return moving


@dataclass(frozen=True, eq=False, slots=True)
class KeyPartners:
    """Records between keys, and the nodes of the keys before and after the wanted moves.

    Attributes:
        graph: Keys and the records between them.
        before: [vertices] Node of each key.
        vertex: [wanted keys] Vertex of each wanted key.
        node: [wanted keys] Node that each wanted key moves to.
    """

    graph: KeyGraph
    before: IntArray
    vertex: IntArray
    node: IntArray

    def lost(self, moving: BoolArray) -> FloatArray:
        """Return [wanted keys]: records per second that become remote if the key does not move.

        All other keys move or stay as ``moving`` says.
        """
        now = self.before.copy()
        now[self.vertex[moving]] = self.node[moving]
        after = self.before.copy()
        after[self.vertex] = self.node
        graph = self.graph
        gain = np.zeros(graph.n_vertices)
        for mine, other in (
            (graph.edge_left, graph.edge_right), (graph.edge_right, graph.edge_left),
        ):  # fmt: skip
            there = (after[mine] == now[other]).astype(np.float64)
            here = self.before[mine] == now[other]
            gain += sum_by(mine, graph.edge_weight * (there - here), graph.n_vertices)
        return gain[self.vertex]
