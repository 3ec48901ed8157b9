"""A worker of an ordered region: it reads a record, sends the result, until its socket ends.

It reads only the record that it processes. Waiting records stay in the sockets' buffers, so that
sends of the splitter block [MW16-REGIONS, 3.2].
"""

from __future__ import annotations

import signal
import socket
import struct
import traceback
from collections.abc import Callable

from ballast.streaming.region.frames import FAILURE, HEADER, RECORD, packed

Work = Callable[[bytes], bytes]
HELLO = struct.Struct(">16sI")
"""The region's secret, which is known to its processes only, and the worker's number."""


def serve(port: int, secret: bytes, index: int, work: Work, receive_buffer: int) -> None:
    """The body of a worker process."""
    # Ctrl-C is for the process of the region; a worker ends when its socket does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect(("127.0.0.1", port))
        sock.sendall(HELLO.pack(secret, index))
        try:
            while _one(sock, work):
                pass
        except OSError:
            # The region has ended.
            return


def _one(sock: socket.socket, work: Work) -> bool:
    header = _exactly(sock, HEADER.size)
    if header is None:
        return False
    _, number, length = HEADER.unpack(header)
    body = _exactly(sock, length)
    if body is None:
        return False
    sock.sendall(_answer(work, number, body))
    return True


def _answer(work: Work, number: int, body: bytes) -> bytes:
    try:
        return packed(RECORD, number, work(body))
    except Exception:  # noqa: BLE001 - the region reports every error of the work function
        return packed(FAILURE, number, traceback.format_exc().encode())


def _exactly(sock: socket.socket, length: int) -> bytes | None:
    data = bytearray()
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            return None
        data += more
    return bytes(data)
