"""Routing tables with hash fallback [MW16-LOCALITY, 3.3].

A table holds 64-bit fingerprints instead of keys: 10 bytes an entry for a key of any length. Two
keys with one fingerprint always go to one server, so a collision can cost locality but never
correctness. A key that goes to its hashed server needs no entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_bytes import fingerprint, key_bytes
from solvers.model.problem import IntArray

MOST_SERVERS = 2**16


def hash_server(key: bytes, n_servers: int) -> int:
    """Return the server of a key without an entry."""
    return fingerprint(key) % n_servers


@dataclass(frozen=True, eq=False, slots=True)
class RoutingTable:
    """The table of one stage; a key without an entry goes by hash.

    Attributes:
        n_servers: Number of servers.
        fingerprints: Sorted fingerprints of the keys with an entry.
        servers: Server of each entry.
    """

    n_servers: int
    fingerprints: npt.NDArray[np.uint64]
    servers: npt.NDArray[np.uint16]

    def __post_init__(self) -> None:
        if not 1 <= self.n_servers <= MOST_SERVERS:
            raise InvalidInput(f"n_servers is {self.n_servers}", allowed=f"1 to {MOST_SERVERS}")
        if len(self.fingerprints) != len(self.servers):
            raise InvalidInput("a routing table needs one server per fingerprint")
        if len(self.servers) and int(self.servers.max()) >= self.n_servers:
            raise InvalidInput("a routing table names a server that does not exist")
        if not bool(np.all(self.fingerprints[1:] > self.fingerprints[:-1])):
            raise InvalidInput("the fingerprints of a routing table are not sorted and unique")

    @classmethod
    def hashed(cls, n_servers: int) -> RoutingTable:
        """Return a table without entries."""
        return cls(n_servers, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.uint16))

    @classmethod
    def build(
        cls,
        n_servers: int,
        server_of: Mapping[bytes, int],
        weight_of: Mapping[bytes, float] | None = None,
        max_keys: int | None = None,
    ) -> RoutingTable:
        """Return a table of the heaviest ``max_keys`` keys whose server is not the hashed one."""
        entries: dict[int, tuple[float, int]] = {}
        for name, server in server_of.items():
            key = key_bytes(name)
            print_ = fingerprint(key)
            weight = 0.0 if weight_of is None else weight_of.get(name, 0.0)
            if print_ % n_servers == server and print_ not in entries:
                continue
            if print_ not in entries or entries[print_][0] < weight:
                entries[print_] = (weight, server)
        chosen = sorted(entries.items(), key=lambda e: (-e[1][0], e[0]))[:max_keys]
        chosen.sort()
        return cls(
            n_servers,
            np.array([p for p, _ in chosen], dtype=np.uint64),
            np.array([s for _, (_, s) in chosen], dtype=np.uint16),
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of the entries."""
        return self.fingerprints.nbytes + self.servers.nbytes

    def __len__(self) -> int:
        return len(self.servers)

    def route(self, key: str | bytes) -> int:
        """Return the server of a key."""
        return self._route(fingerprint(key_bytes(key)))

    def _route(self, print_: int) -> int:
        position = int(np.searchsorted(self.fingerprints, np.uint64(print_)))
        if position < len(self.fingerprints) and int(self.fingerprints[position]) == print_:
            return int(self.servers[position])
        return print_ % self.n_servers

    def route_many(self, keys: Iterable[str | bytes]) -> IntArray:
        """Return the server of each key."""
        prints = np.array([fingerprint(key_bytes(k)) for k in keys], dtype=np.uint64)
        by_hash = (prints % np.uint64(self.n_servers)).astype(np.int64)
        if not len(self.fingerprints):
            return by_hash
        position = np.searchsorted(self.fingerprints, prints)
        position = np.minimum(position, len(self.fingerprints) - 1)
        has_entry = self.fingerprints[position] == prints
        return np.where(has_entry, self.servers[position].astype(np.int64), by_hash)


def moved_keys(
    before: RoutingTable, after: RoutingTable, keys: Sequence[bytes]
) -> list[tuple[bytes, int, int]]:
    """Return (key, old server, new server) of the keys that migrate [MW16-LOCALITY, 3.4]."""
    old, new = before.route_many(keys), after.route_many(keys)
    changed = np.flatnonzero(old != new).tolist()
    return [(keys[i], int(old[i]), int(new[i])) for i in changed]
