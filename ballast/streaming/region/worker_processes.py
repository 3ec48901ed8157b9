"""Starts and ends the worker processes of a region, connected by loopback TCP."""

from __future__ import annotations

import multiprocessing
import secrets
import socket
import time
from multiprocessing.process import BaseProcess

from ballast.contracts.errors import BallastError
from ballast.streaming.region.worker import HELLO, Work, serve

START_S = 60.0
END_S = 1.0
"""Short, because workers keep no state."""


class RegionFailed(BallastError):
    """The region cannot continue: no worker is left, or the work function fails."""


def start_workers(
    work: Work, count: int, send_buffer: int, receive_buffer: int
) -> tuple[list[BaseProcess], list[socket.socket]]:
    """Processes and, in the same order, the region's ends of their connections."""
    # A fork of a process with threads may hang, so a fork server starts the workers.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([serve.__module__])
    secret = secrets.token_bytes(16)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(count)
        port = listener.getsockname()[1]
        processes: list[BaseProcess] = [
            context.Process(
                target=serve,
                args=(port, secret, index, work, receive_buffer),
                name=f"worker-{index}",
                daemon=True,
            )
            for index in range(count)
        ]
        try:
            for process in processes:
                process.start()
            sockets = _accept(listener, secret, processes)
        except BaseException:
            end_workers(processes)
            raise
    for sock in sockets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return processes, sockets


def _accept(
    listener: socket.socket, secret: bytes, processes: list[BaseProcess]
) -> list[socket.socket]:
    found: dict[int, socket.socket] = {}
    until = time.monotonic() + START_S
    listener.settimeout(0.5)
    while len(found) < len(processes):
        try:
            sock, _ = listener.accept()
        except TimeoutError:
            _check_start(processes, found, until)
            continue
        index = _hello(sock, secret)
        if index is None:
            sock.close()
        else:
            found[index] = sock
    return [found[index] for index in range(len(processes))]


def _hello(sock: socket.socket, secret: bytes) -> int | None:
    """The worker's number; None if the connection is not from a worker of this region."""
    sock.settimeout(START_S)
    data = sock.recv(HELLO.size, socket.MSG_WAITALL)
    sock.settimeout(None)
    if len(data) < HELLO.size:
        return None
    shown, index = HELLO.unpack(data)
    return int(index) if secrets.compare_digest(shown, secret) else None


def _check_start(
    processes: list[BaseProcess], found: dict[int, socket.socket], until: float
) -> None:
    absent = [p for index, p in enumerate(processes) if index not in found]
    dead = [p for p in absent if p.exitcode is not None]
    if dead or time.monotonic() > until:
        raise RegionFailed(
            f"{dead[0].name} ended with {dead[0].exitcode} before it connected"
            if dead
            else f"{len(absent)} workers did not connect within {START_S:.0f} s"
        )


def end_workers(processes: list[BaseProcess]) -> None:
    """Waits shortly for workers to end, then kills the others."""
    until = time.monotonic() + END_S
    started = [p for p in processes if p.pid is not None]
    for process in started:
        process.join(max(0.0, until - time.monotonic()))
    for process in started:
        if process.exitcode is None:
            process.kill()
            process.join()
