"""The splitter's end of a connection: sends whole records and knows how long it was kept waiting.

[MW16-REGIONS, 3.1]: a send that would block is noticed, then waited for, and the wait is counted.
"""

from __future__ import annotations

import select
import socket
import threading

from ballast.streaming.region.clock import ForwardClock

SLICE_MS = 50
"""Waits are counted in slices, so that one longer than a window shows in every window."""


class Connection:
    """One worker's socket. ``sent`` and ``blocked_s`` only rise."""

    def __init__(self, index: int, sock: socket.socket, clock: ForwardClock) -> None:
        self.index = index
        self.socket = sock
        self.sent = 0
        self.blocked_s = 0.0
        self._clock = clock
        # The splitter and what sends a dead worker's records again both send whole records.
        self._turn = threading.Lock()
        self._writable = select.poll()
        self._writable.register(sock, select.POLLOUT)

    def send(self, frame: bytes) -> None:
        """All of the frame, however long that takes."""
        with self._turn:
            self._finish(memoryview(frame))

    def try_send(self, frame: bytes) -> bool:
        """False if nothing of the frame could be sent at once."""
        with self._turn:
            view = memoryview(frame)
            done = self._now(view)
            if done:
                self._finish(view[done:])
            return done > 0

    def charge(self, seconds: float) -> None:
        """Time the splitter waited for this connection's worker elsewhere than in its socket."""
        self.blocked_s += seconds

    def end(self) -> None:
        """No more is sent or received; who waits on the socket wakes up."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def _finish(self, rest: memoryview) -> None:
        while rest:
            done = self._now(rest)
            rest = rest[done:]
            if rest and not done:
                self._wait()
        self.sent += 1

    def _now(self, data: memoryview) -> int:
        try:
            return self.socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def _wait(self) -> None:
        before = self._clock.now()
        self._writable.poll(SLICE_MS)
        self.blocked_s += self._clock.now() - before
