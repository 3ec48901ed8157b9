"""The splitter's end of a connection: sends whole records and measures how long sends block.

A send that would block is detected, then waited for, and the wait is counted [MW16-REGIONS, 3.1].
"""

from __future__ import annotations

import select
import socket
import threading

from ballast.streaming.clock import ForwardClock

SLICE_MS = 50
"""Waits are counted in slices, so that a long wait is counted in every window it covers."""


class Connection:
    """The socket of one worker. ``sent`` and ``blocked_s`` only increase."""

    def __init__(self, index: int, sock: socket.socket, clock: ForwardClock) -> None:
        self.index = index
        self.socket = sock
        self.sent = 0
        self.blocked_s = 0.0
        self._clock = clock
        # The splitter and the thread that resends records must not mix their frames.
        self._turn = threading.Lock()
        self._writable = select.poll()
        self._writable.register(sock, select.POLLOUT)

    def send(self, frame: bytes) -> None:
        """Sends the whole frame, however long that takes."""
        with self._turn:
            self._finish(memoryview(frame))

    def try_send(self, frame: bytes) -> bool:
        """Sends the frame if that is possible at once; returns False if nothing was sent."""
        with self._turn:
            view = memoryview(frame)
            done = self._now(view)
            if done:
                self._finish(view[done:])
            return done > 0

    def charge(self, seconds: float) -> None:
        """Adds time that the splitter waited for this worker outside of its socket."""
        self.blocked_s += seconds

    def end(self) -> None:
        """Shuts the socket down; threads that wait on it wake up."""
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
