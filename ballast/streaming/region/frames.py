"""What goes over a connection: a kind, the record's number in the stream, and its bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

RECORD = 0
"""To a worker: a record. From a worker: its result."""
FAILURE = 1
"""From a worker: the work raised, with its traceback."""
HEADER = struct.Struct(">BQI")
LARGEST = 2**26
"""Bytes of a record: a header that says more is broken, and must not be waited for."""

Frame = tuple[int, int, bytes]


def packed(kind: int, number: int, body: bytes) -> bytes:
    if len(body) > LARGEST:
        raise ValueError(f"record {number} has {len(body)} bytes, at most {LARGEST} are allowed")
    return HEADER.pack(kind, number, len(body)) + body


class FrameReader:
    """Whole frames out of bytes as they come."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._bytes += data
        start = 0
        while len(self._bytes) - start >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self._bytes, start)
            body = start + HEADER.size
            if length > LARGEST:
                raise ValueError(f"a frame of {length} bytes, at most {LARGEST} are allowed")
            if len(self._bytes) < body + length:
                break
            yield kind, number, bytes(self._bytes[body : body + length])
            start = body + length
        del self._bytes[:start]
