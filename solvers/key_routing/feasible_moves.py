"""Of keys that gain elsewhere, those that the nodes can bear.

Keys that were found together are level together; a part of them, such as those that gain most, need
not be. So keys are sent back from where there is too much, or to where there is too little, those
first that lose least for the relief they give, until every node is within its limits.
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
    """[nodes x columns]: what a node has while no key moves, the least and the most it may have.

    A column is a resource, or a stage's records as one memory has them.
    """

    load: FloatArray
    least: FloatArray
    most: FloatArray

    @property
    def scale(self) -> FloatArray:
        """[columns]: the largest limit of each."""
        finite = np.where(np.isfinite(self.most), np.abs(self.most), 0.0)
        scale: FloatArray = np.maximum(finite.max(axis=0, initial=0.0), np.finfo(np.float64).tiny)
        return scale

    def beyond(self, load: FloatArray) -> FloatArray:
        """[nodes x columns]: how far a load is outside, in parts of the largest limit."""
        outside: FloatArray = np.maximum(load - self.most, self.least - load) / self.scale
        return outside

    def allow(self, load: FloatArray) -> bool:
        """Whether a load is within all of them."""
        return bool((self.beyond(load) <= ROUNDING).all())

    def beside(self, other: LoadLimits) -> LoadLimits:
        """Both, the columns of the other one behind."""
        pairs = ((self.load, other.load), (self.least, other.least), (self.most, other.most))
        return LoadLimits(*(np.hstack(pair) for pair in pairs))


@dataclass(frozen=True, eq=False, slots=True)
class MoveEffects:
    """What the moves of a key take from node to node, an entry for each column they count in."""

    key: IntArray  # number of the key among those that want to move
    column: IntArray
    source: IntArray
    target: IntArray
    amount: FloatArray

    def load(self, limits: LoadLimits, moving: BoolArray) -> FloatArray:
        """[nodes x columns]: what nodes have while these keys move."""
        on = moving[self.key]
        shape = limits.load.shape
        size = shape[0] * shape[1]
        came = sum_by(self.target[on] * shape[1] + self.column[on], self.amount[on], size)
        went = sum_by(self.source[on] * shape[1] + self.column[on], self.amount[on], size)
        load: FloatArray = limits.load + (came - went).reshape(shape)
        return load

    def relief(self, moving: BoolArray, column: int, at: IntArray, node: int) -> FloatArray:
        """[keys]: what each moves to or from a node, by the ends ``at`` of the entries."""
        on = moving[self.key] & (self.column == column) & (at == node)
        return sum_by(self.key[on], self.amount[on], len(moving))


def select_feasible(
    effects: MoveEffects, limits: LoadLimits, n_keys: int, lost: Callable[[BoolArray], FloatArray]
) -> BoolArray:
    """[keys]: those that may move; none where what is there before is beyond the limits already.

    ``lost(moving)`` says of each key what would be lost if it alone did not move.
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
        wanted = float(beyond[node, column] * scale[column])
        enough = int(np.searchsorted(np.cumsum(relief[order]), wanted)) + 1
        moving[order[:enough]] = False
    return moving


@dataclass(frozen=True, eq=False, slots=True)
class KeyPartners:
    """Records between keys, and where each key is before and after the moves that are wanted."""

    graph: KeyGraph
    before: IntArray  # [vertices]: node
    vertex: IntArray  # [keys that want to move]
    node: IntArray  # [keys that want to move]: where to

    def lost(self, moving: BoolArray) -> FloatArray:
        """[keys]: records a second that would leave their node if a key alone did not move.

        Of a key that does not move: what it would lose by staying, the others as they are.
        """
        now = self.before.copy()
        now[self.vertex[moving]] = self.node[moving]
        wanted = self.before.copy()
        wanted[self.vertex] = self.node
        graph = self.graph
        gain = np.zeros(graph.n_vertices)
        for mine, other in (
            (graph.edge_left, graph.edge_right), (graph.edge_right, graph.edge_left),
        ):  # fmt: skip
            there = (wanted[mine] == now[other]).astype(np.float64)
            here = self.before[mine] == now[other]
            gain += sum_by(mine, graph.edge_weight * (there - here), graph.n_vertices)
        return gain[self.vertex]
