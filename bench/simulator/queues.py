"""Queues of nodes, record by record: how long each record waits, and for which state.

A node processes its records in the order in which they are ready. When a plan comes into force, the
old node first processes the records in its queue. Then its key groups are moved one after another,
and the records of a key group wait until its state has arrived (the barrier of ADR 5). So latency
contains overload, pause, and the queue that a pause leaves.
"""

from __future__ import annotations

import numpy as np

from bench.simulator.cluster import PauseModel
from solvers.model.problem import FloatArray, IntArray


class Queues:
    """Queues of nodes, first come, first served, each with a capacity; one object is one run."""

    def __init__(self, capacity: FloatArray, key_groups: int) -> None:
        self.capacity = np.asarray(capacity, dtype=np.float64)
        self.free_at_s: FloatArray = np.zeros(len(self.capacity))
        self.held_until_s: FloatArray = np.zeros(key_groups)

    def serve(
        self, at_s: FloatArray, key_group: IntArray, node: IntArray, service_s: float
    ) -> FloatArray:
        """Seconds from the arrival of each record until it is processed."""
        ready = np.maximum(at_s, self.held_until_s[key_group])
        order = np.lexsort((ready, node))
        ends = np.cumsum(np.bincount(node, minlength=len(self.capacity)))
        done = np.empty(len(ready))
        for i, mine in enumerate(np.split(order, ends[:-1])):
            if len(mine):
                done[mine] = departures(
                    ready[mine], service_s / self.capacity[i], self.free_at_s[i]
                )
                self.free_at_s[i] = done[mine[-1]]
        return np.asarray(done - at_s)

    def move(
        self,
        before: IntArray,
        after: IntArray,
        state_bytes: IntArray,
        pause: PauseModel,
        at_s: float,
    ) -> None:
        """Key groups leave their nodes one after another, after the queues there are empty."""
        for node in np.unique(before[before != after]):
            leaving = np.flatnonzero((before == node) & (before != after))
            start = max(at_s, float(self.free_at_s[node]))
            self.held_until_s[leaving] = start + np.cumsum(pause.of(state_bytes[leaving]))


def departures(ready_s: FloatArray, service_s: float, free_at_s: float) -> FloatArray:
    """When each record of one node is processed: D_i = max(ready_i, D_i-1) + service, in one pass.

    With C_i = i x service: D_i = C_i + the largest ready_j - C_j-1 so far (Lindley).
    """
    served = service_s * np.arange(1, len(ready_s) + 1)
    waits_from = np.maximum.accumulate(ready_s - (served - service_s))
    return np.asarray(served + np.maximum(waits_from, free_at_s))
