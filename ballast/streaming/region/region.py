"""An ordered region: workers process records in parallel, results come out in the same order.

One thread sends records to workers by weights and blocks if a worker is busy; a merge restores the
order [MW16-REGIONS, 3 and 4]. Weights come from a plan or from a local loop.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from ballast.contracts.errors import InvalidInput
from ballast.contracts.regions import UNITS, worker_names
from ballast.streaming.clock import ForwardClock
from ballast.streaming.region.connection import SLICE_MS, Connection
from ballast.streaming.region.frames import FAILURE, RECORD, FrameReader, packed
from ballast.streaming.region.in_flight import InFlight
from ballast.streaming.region.measurement import Reading, RegionMeasurement
from ballast.streaming.region.meter import Control, Meter, WeightTime
from ballast.streaming.region.settings import RegionSettings
from ballast.streaming.region.weights import checked, even_weights
from ballast.streaming.region.worker import Work
from ballast.streaming.region.worker_processes import (
    END_S,
    RegionFailed,
    end_workers,
    start_workers,
)

log = logging.getLogger(__name__)


class OrderedRegion:
    """A context manager: workers run from enter to exit, and ``run`` is called once.

    Args:
        work: the function that a worker calls for each record.
        workers: the number of workers, or their names.
        weights: units of each worker at the start; even by default.
        settings: sizes and periods.
        control: a local loop that changes weights.
        on_window: called with each window.

    Raises:
        InvalidInput: the workers or the weights are not valid.
    """

    def __init__(
        self,
        work: Work,
        workers: int | Sequence[str],
        *,
        weights: Sequence[int] | None = None,
        settings: RegionSettings | None = None,
        control: Control | None = None,
        on_window: Callable[[RegionMeasurement], None] | None = None,
    ) -> None:
        self.connection_ids = worker_names(workers)
        count = len(self.connection_ids)
        if not 1 <= count <= UNITS or len(set(self.connection_ids)) != count:
            raise InvalidInput(
                f"{count} workers", value=workers, allowed=f"1 to {UNITS}, no name twice"
            )
        self.settings = settings or RegionSettings()
        self._work = work
        self._clock = ForwardClock(self.settings.read_clock)
        start = checked(even_weights(count) if weights is None else weights, count)
        self._flight = InFlight(start, self.settings.max_in_flight, self._clock)
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._threads: list[threading.Thread] = []
        self._weight_time = WeightTime(self._flight, self._clock)
        self._meter = Meter(
            self.connection_ids, self.settings, self._clock, self._reading, control, on_window
        )
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._is_used = False

    # Start and end

    def __enter__(self) -> OrderedRegion:
        size = self.settings
        self._processes, sockets = start_workers(
            self._work, len(self.connection_ids), size.send_buffer, size.receive_buffer
        )
        self._connections = [Connection(j, s, self._clock) for j, s in enumerate(sockets)]
        self._wake_in, self._wake_out = socket.socketpair()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        for connection in self._connections:
            connection.end()
        for thread in self._threads:
            # A source may wait for its next record for ever; its thread is a daemon.
            thread.join(END_S)
        end_workers(self._processes)
        for connection in self._connections:
            connection.socket.close()
        self._wake_in.close()
        self._wake_out.close()

    def stop(self) -> None:
        """Ends ``run``; results that have not come out are lost. Callable from any thread."""
        self._stop.set()
        self._wake()

    @property
    def merged(self) -> int:
        """Records that came out so far."""
        return self._flight.merged

    @property
    def pids(self) -> list[int]:
        return [p.pid for p in self._processes if p.pid is not None]

    # Weights

    @property
    def weights(self) -> list[int]:
        """The weights in force; those of dead workers are given to the others."""
        return [int(w) for w in self._flight.weights]

    def set_weights(self, weights: Sequence[int]) -> None:
        """Sets the weights from the next record on.

        Raises:
            InvalidInput: the weights are not valid; the old ones stay.
        """
        new = checked(weights, len(self.connection_ids))
        self._weight_time.change(lambda: self._flight.set_weights(new))

    # Records

    def run(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """The result of each record, in the order of the records, each exactly once.

        Raises:
            InvalidInput: ``run`` was called before, or outside of ``with``.
            RegionFailed: no worker is left, or the work function fails.
        """
        if self._is_used or not self._connections:
            raise InvalidInput("run was called before, or outside of with", remedy="a new region")
        self._is_used = True
        self._weight_time.begin()
        self._start(self._split, iter(source))
        self._start(self._meter.run, self._stop, self.set_weights)
        yield from self._merge()

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(
            target=self._guarded, args=(target, arguments), name=target.__name__, daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _guarded(self, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            target(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again where results are read
            if not self._stop.is_set():
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        self._wake_in.send(b".")

    # The splitter

    def _split(self, source: Iterator[bytes]) -> None:
        for record in source:
            self._wait_for_room()
            if self._stop.is_set():
                return
            number, chosen = self._flight.add(record)
            frame = packed(RECORD, number, record)
            blocked = self._rerouted(number, chosen, frame) if self.settings.reroute else chosen
            if blocked is not None:
                self._send(blocked, frame)
        self._flight.end_of_source()
        self._wake()

    def _wait_for_room(self) -> None:
        """Time without room is charged to the connection that holds up the merge."""
        while not (self._flight.has_room or self._stop.is_set()):
            holder, before = self._flight.awaited_connection(), self._clock.now()
            self._flight.wait_for_room(SLICE_MS / 1000)
            if holder is not None:
                self._connections[holder].charge(self._clock.now() - before)

    def _send(self, chosen: int, frame: bytes) -> None:
        try:
            self._connections[chosen].send(frame)
        except OSError:
            # The merge detects the end of this connection too, and resends its records.
            return

    def _rerouted(self, number: int, chosen: int, frame: bytes) -> int | None:
        """Tries every connection once; returns the one to block on if all would block."""
        count = len(self._connections)
        holder = chosen
        for step in range(count):
            j = (chosen + step) % count
            if step and not (self._flight.weights[j] and self._flight.reassign(number, j)):
                continue
            holder = j
            try:
                if self._connections[j].try_send(frame):
                    return None
            except OSError:
                # As in _send: the merge resends the records of a dead worker.
                return None
        return chosen if self._flight.reassign(number, chosen) else holder

    # The merge

    def _merge(self) -> Iterator[bytes]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_out, selectors.EVENT_READ, None)
            for connection in self._connections:
                reader = FrameReader()
                selector.register(connection.socket, selectors.EVENT_READ, (connection, reader))
            while True:
                yield from self._flight.in_order()
                if self._error is not None:
                    raise self._error
                if self._flight.is_done or self._stop.is_set():
                    return
                for key, _ in selector.select():
                    if key.data is None:
                        self._wake_out.recv(1)
                    elif not self._receive(*key.data):
                        selector.unregister(key.fileobj)
                        self._lost(key.data[0])

    def _receive(self, connection: Connection, reader: FrameReader) -> bool:
        """Reads results of a worker; False if the worker has ended."""
        try:
            data = connection.socket.recv(65_536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for kind, number, body in reader.feed(data):
            if kind == FAILURE:
                name = self.connection_ids[connection.index]
                raise RegionFailed(f"the work failed on record {number} in {name}: {body.decode()}")
            self._flight.complete(number, body)
        return bool(data)

    def _lost(self, connection: Connection) -> None:
        connection.end()
        numbers = self._weight_time.change(lambda: self._flight.remove_worker(connection.index))
        name = self.connection_ids[connection.index]
        if not self._flight.alive.any():
            raise RegionFailed(
                f"{name} died and no worker is left; {self._flight.merged} records came out"
            )
        log.warning("%s died; %d records are sent to other workers", name, len(numbers))
        # In another thread: the merge must not wait for a worker that waits for the merge.
        self._start(self._send_again, numbers)

    def _send_again(self, numbers: list[int]) -> None:
        for number in numbers:
            sent = self._flight.resend(number)
            if sent is None:
                continue
            if sent.deaths >= self.settings.max_deaths:
                raise RegionFailed(
                    f"{sent.deaths} workers died while they processed record {number}; "
                    "to fix it: find out why the work function ends the process"
                )
            self._send(sent.connection, packed(RECORD, number, sent.record))

    # Measuring

    def _reading(self) -> Reading:
        at, weight_s = self._weight_time.now()
        done, busy_s = self._flight.busy()
        return Reading(
            at,
            np.array([c.sent for c in self._connections], dtype=np.int64),
            np.array([c.blocked_s for c in self._connections]),
            done,
            busy_s,
            weight_s,
            np.array(self._flight.alive),
        )
