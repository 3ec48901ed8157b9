"""Records between the splitter and the merge: their connections, their results, and the order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ballast.streaming.clock import ForwardClock
from ballast.streaming.region.busy_times import BusyTimes
from ballast.streaming.region.weights import Units, WeightedRoundRobin, among_alive, checked


@dataclass(slots=True)
class Sent:
    """A record without a result, and the connection that it was sent to."""

    record: bytes
    connection: int
    order: int
    """Workers take records in the order in which they were sent."""
    deaths: int = 0
    """Workers that died while they processed this record."""


class InFlight:
    """The records that were sent and not merged; splitter, merge and local loop share it.
    Thread-safe."""

    def __init__(self, weights: Units, most: int, clock: ForwardClock) -> None:
        self.alive: NDArray[np.bool_] = np.ones(len(weights), dtype=bool)
        self.merged = 0
        self.total: int | None = None
        self._most = most
        self._wanted = weights
        self._turns = WeightedRoundRobin(weights)
        self._out: dict[int, Sent] = {}
        self._back: dict[int, bytes] = {}
        self._busy = BusyTimes(len(weights), clock)
        self._numbered = 0
        self._sends = 0
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)

    # Weights

    @property
    def weights(self) -> Units:
        """The weights in force: those set, with the weights of dead workers given to the others."""
        return self._turns.weights

    def set_weights(self, weights: Units) -> None:
        with self._lock:
            self._wanted = checked(weights.tolist(), len(self.alive))
            self._turns.change(among_alive(self._wanted, self.alive))

    # The splitter

    @property
    def has_room(self) -> bool:
        return self._numbered - self.merged < self._most

    def wait_for_room(self, seconds: float) -> None:
        with self._room:
            self._room.wait_for(lambda: self.has_room, timeout=seconds)

    def awaited_connection(self) -> int | None:
        """The connection whose result the merge waits for; None if the result has arrived."""
        with self._lock:
            first = self._out.get(self.merged)
            return first.connection if first else None

    def add(self, record: bytes) -> tuple[int, int]:
        """Add a record; return its number and its connection."""
        with self._lock:
            number, chosen = self._numbered, self._turns.next()
            self._out[number] = Sent(record, chosen, self._next_send())
            self._busy.sent(chosen)
            self._numbered += 1
            return number, chosen

    def reassign(self, number: int, taken: int) -> bool:
        """Reassign a record that was not sent yet to another connection; False if that one is
        dead."""
        with self._lock:
            sent = self._out.get(number)
            if sent is None or not self.alive[taken]:
                return False
            self._turns.charge_instead(sent.connection, taken)
            self._move(sent, taken)
            return True

    def _move(self, sent: Sent, taken: int) -> None:
        self._busy.withdrawn(sent.connection)
        self._busy.sent(taken)
        sent.connection, sent.order = taken, self._next_send()

    def _next_send(self) -> int:
        self._sends += 1
        return self._sends

    def end_of_source(self) -> None:
        with self._lock:
            self.total = self._numbered

    # The merge

    def complete(self, number: int, result: bytes) -> None:
        """Store the result of a record; a second result of the same record is ignored."""
        with self._lock:
            sent = self._out.pop(number, None)
            if sent is not None:
                self._busy.returned(sent.connection)
                self._back[number] = result

    def in_order(self) -> Iterator[bytes]:
        """Yield the results that follow the last merged one, without a gap."""
        while True:
            with self._room:
                if self.merged not in self._back:
                    return
                result = self._back.pop(self.merged)
                self.merged += 1
                self._room.notify()
            yield result

    @property
    def is_done(self) -> bool:
        return self.total is not None and self.merged >= self.total

    # A worker that died

    def remove_worker(self, connection: int) -> list[int]:
        """Mark a worker as dead; return the numbers of its records, in order."""
        with self._lock:
            self.alive[connection] = False
            if self.alive.any():
                self._turns.change(among_alive(self._wanted, self.alive))
            had = {n: sent for n, sent in self._out.items() if sent.connection == connection}
            if had:
                min(had.values(), key=lambda sent: sent.order).deaths += 1
            return sorted(had)

    def resend(self, number: int) -> Sent | None:
        """Reassign a record of a dead worker; None if its result has arrived."""
        with self._lock:
            sent = self._out.get(number)
            if sent is None or self.alive[sent.connection]:
                return None
            self._move(sent, self._turns.next())
            return sent

    # Measuring

    def busy(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        with self._lock:
            return self._busy.reading()
