"""The power of two choices (PoTC of seed 000, 2.2; PKG of seed 002): two servers per key.

A source sends each record to the less loaded of its key's two servers, by its own count of what
it sent. Load is level without migration, but a key's state is split, so results must be merged:
a cost that never stops and that the method does not balance (seed 000, 5.2.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.collocate.keys.names import fingerprint, key_bytes
from solvers.problem import FloatArray


def two_choices(key: bytes, n_servers: int) -> tuple[int, int]:
    """h1 and h2. They may agree, as independent hash functions do."""
    return fingerprint(key, 1) % n_servers, fingerprint(key, 2) % n_servers


class TwoChoices:
    """One source's view: it knows only what it sent itself, as in print."""

    def __init__(self, n_servers: int) -> None:
        if n_servers < 1:
            raise InvalidInput(f"n_servers is {n_servers}", allowed="a number >= 1")
        self.n_servers = n_servers
        self.sent = [0.0] * n_servers

    def route(self, key: str | bytes, weight: float = 1.0) -> int:
        first, second = two_choices(key_bytes(key), self.n_servers)
        chosen = first if self.sent[first] <= self.sent[second] else second
        self.sent[chosen] += weight
        return chosen


@dataclass(frozen=True, eq=False, slots=True)
class TwoChoicesOutcome:
    """``load`` per server; ``partials``: (key, server) states held; ``merges``: those that have
    to be sent to another server to be merged, every time a result is wanted."""

    load: FloatArray
    partials: int
    merges: int
    merge_load: FloatArray


def run_two_choices(
    records: Iterable[tuple[str | bytes, float]], n_servers: int, n_sources: int = 1
) -> TwoChoicesOutcome:
    """Records in order, dealt to the sources in turn. A key is merged at its first choice."""
    sources = [TwoChoices(n_servers) for _ in range(n_sources)]
    held: dict[bytes, set[int]] = {}
    load = np.zeros(n_servers)
    for i, (name, weight) in enumerate(records):
        key = key_bytes(name)
        server = sources[i % n_sources].route(key, weight)
        load[server] += weight
        held.setdefault(key, set()).add(server)
    merge_load = np.zeros(n_servers)
    for key, servers in held.items():
        home = two_choices(key, n_servers)[0]
        merge_load[home] += len(servers - {home})
    return TwoChoicesOutcome(load, sum(map(len, held.values())), int(merge_load.sum()), merge_load)
