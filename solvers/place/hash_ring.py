"""Consistent hashing with virtual nodes: first placement, and the baseline for relocation.

[DODO, 7.1.3 and appendix B]: nodes and keys are hashed onto a ring, and a key belongs to the next
point clockwise. Each node has many points (200 in the appendix), here in proportion to its
capacity. A new node gets about 1 / (N + 1) of the keys; no other key moves.

It is short, depends on BLAKE2b alone, and gives the same result on every machine and for every
order of nodes, so no library is used. See ADR 33.
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
    """The position of a name on the ring: 64 bits, the same on every machine."""
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
        # If two names have one position, which is very rare, the smaller name comes first.
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
