"""Functions for the workers of the tests, which a worker process can import."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

SLOW_S = 0.005


def worker_name() -> str:
    return multiprocessing.current_process().name


def shout(record: bytes) -> bytes:
    return record.upper()


def who(record: bytes) -> bytes:
    return worker_name().encode() + b":" + record


def slow_first(record: bytes) -> bytes:
    """worker-0 is slow."""
    if worker_name() == "worker-0":
        time.sleep(SLOW_S)
    return who(record[:8])


def uneven(record: bytes) -> bytes:
    """Records take different times, so that they come back out of order."""
    time.sleep(0.002 * (int(record) % 3))
    return record


def refuse_seven(record: bytes) -> bytes:
    if record == b"7":
        raise ValueError("seven is not allowed")
    return record


def die_of_seven(record: bytes) -> bytes:
    if record == b"7":
        os.kill(os.getpid(), signal.SIGKILL)
    return record


def never(record: bytes) -> bytes:
    time.sleep(3600)
    return record
