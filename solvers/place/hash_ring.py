"""Consistent hashing with virtual nodes: first placement, and the relocation baseline (7.1.3).

[DODO, 7.1.3] and appendix B: nodes and keys are hashed onto a ring, a key belongs to the next
point clockwise, and each node has many points (200 in the appendix), here in proportion to its
capacity. Adding a node moves about 1 / (N + 1) of the keys, all of them to the new node.

Own ring and no library: it is this short, the same on every machine and version because it rests
on BLAKE2b alone, and the order of nodes does not matter. See ADR 33.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ballast.contracts.errors import InvalidInput

POINTS = 200
"""Points of an average node, as in [DODO, appendix B]."""


def position(text: str) -> int:
    """Where a name is on the ring: 64 bits that never change."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class HashRing:
    """A ring of nodes with capacities; ``points`` is the number of an average node's points."""

    capacity: Mapping[str, float]
    points: int = POINTS
    _positions: list[int] = field(init=False, repr=False, compare=False)
    _owners: list[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.capacity or self.points < 1:
            raise InvalidInput("a ring needs a node and at least one point a node")
        for node, capacity in self.capacity.items():
            if not (math.isfinite(capacity) and capacity > 0):
                raise InvalidInput(
                    f"capacity of node {node!r} is {capacity!r}", allowed="a number > 0"
                )
        # Two names at one point are vanishingly rare; then the smaller name has it, always.
        placed = sorted(
            (position(f"{node}#{i}"), node)
            for node, capacity in self.capacity.items()
            for i in range(max(1, round(self.points * capacity)))
        )
        object.__setattr__(self, "_positions", [at for at, _ in placed])
        object.__setattr__(self, "_owners", [node for _, node in placed])

    def node_of(self, key: str) -> str:
        """The first node clockwise of the key."""
        i = bisect_left(self._positions, position(key))
        return self._owners[i % len(self._owners)]

    def place(self, keys: Iterable[str]) -> dict[str, str]:
        return {key: self.node_of(key) for key in keys}
