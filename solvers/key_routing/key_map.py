"""Which key group each key belongs to, by route or by hash, and moves of keys between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.contracts.identity import hashed_key_group, key_group_name, split_key_group_name
from solvers.key_routing.key_graph import KeyGraph
from solvers.model.key_statistics import RoutedEdge, Routing
from solvers.model.problem import IntArray, Problem


@dataclass(frozen=True, slots=True)
class KeyMove:
    """A key of an operator moves to another key group with its share of the state.

    Attributes:
        operator: Operator that owns both key groups.
        key: The key that moves.
        source: Row of the key group that the key leaves.
        target: Row of the key group that the key joins.
        bytes: State that moves with the key.
    """

    operator: str
    key: str
    source: int
    target: int
    bytes: float


KeyMoves = tuple[KeyMove, ...]
"""The moves of one key: one for each operator that shares its partition key."""


class KeyMap:
    """Finds the key group of a key, as a row of the problem."""

    def __init__(self, problem: Problem, routing: Routing) -> None:
        self.problem, self.routing = problem, routing
        self.row_of = {name: row for row, name in enumerate(problem.key_group_ids)}
        self.groups: dict[str, list[int]] = {}
        for row, name in enumerate(problem.key_group_ids):
            self.groups.setdefault(split_key_group_name(name)[0], []).append(row)

    def group(self, operator: str, key: str) -> int:
        """Return the number of the key group within its operator."""
        routed = self.routing.get(operator, {}).get(key)
        return self.hashed(operator, key) if routed is None else routed

    def hashed(self, operator: str, key: str) -> int:
        """Return the number of the key group that the hash of the key selects."""
        return hashed_key_group(key, len(self.groups[operator]))

    def row(self, operator: str, key: str) -> int:
        """Return the row of the key's key group in the problem."""
        return self.row_of[key_group_name(operator, self.group(operator, key))]


def key_group_indices(graph: KeyGraph, keys: KeyMap, edge: RoutedEdge) -> IntArray:
    """Return [vertices]: the key group row of each key at the operator that counted its pairs."""
    return np.array(
        [
            keys.row(edge.left[0] if v < graph.n_left else edge.right[0], key.decode())
            for v, key in enumerate(graph.keys)
        ],
        dtype=np.int64,
    )
