"""A job that follows routes: the state of every key, and its server."""

from __future__ import annotations

import numpy as np

from bench.routing.streams import Stream, StreamPeriod
from solvers.key_routing.route_quality import RouteQuality, quality
from solvers.key_routing.routing_table import RoutingTable
from solvers.model.problem import BoolArray, FloatArray, IntArray

NOWHERE = -1


class RoutedServers:
    """The server and the state of each key. State is the number of records of a key.

    A new key has no server yet. ``table`` routes new keys; a key without an entry goes by hash.
    """

    def __init__(self, stream: Stream, n_servers: int) -> None:
        self.n_servers = n_servers
        self.hashed: IntArray = RoutingTable.hashed(n_servers).route_many(stream.keys)
        self.table: IntArray = self.hashed
        self.place: IntArray = np.full(len(stream.keys), NOWHERE, dtype=np.int64)
        self.state: FloatArray = np.zeros(len(stream.keys))

    @property
    def seen(self) -> BoolArray:
        return self.place != NOWHERE

    @property
    def entries(self) -> int:
        """The number of keys that need an entry: those not on their hashed server."""
        return int(np.count_nonzero(self.seen & (self.place != self.hashed)))

    def admit_by_table(self, period: StreamPeriod) -> None:
        new = period.ids[self.place[period.ids] == NOWHERE]
        self.place[new] = self.table[new]

    def admit_by_partner(self, period: StreamPeriod) -> None:
        """Put each new key on the server of the key in its first record.

        If both keys are new, the left one goes by hash and the right one follows it.
        """
        place = self.place
        is_new = (place[period.left] == NOWHERE) | (place[period.right] == NOWHERE)
        for i in np.flatnonzero(is_new).tolist():
            a, b = period.left[i], period.right[i]
            if place[a] == NOWHERE:
                place[a] = self.hashed[a] if place[b] == NOWHERE else place[b]
            if place[b] == NOWHERE:
                place[b] = place[a]

    def serve(self, period: StreamPeriod) -> RouteQuality:
        """Route the records of a period; the state of their keys grows."""
        self.state[period.ids] += period.graph.weight
        return quality(period.graph, self.place[period.ids], self.n_servers)

    def follow(self, place: IntArray) -> float:
        """Move every known key to its new server; return the percent of the state that moves."""
        moved = float(self.state[self.seen & (place != self.place)].sum())
        self.table = np.where(place == NOWHERE, self.hashed, place)
        self.place = np.where(self.seen, place, NOWHERE)
        total = float(self.state.sum())
        return 100.0 * moved / total if total > 0 else 0.0
