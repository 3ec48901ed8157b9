"""Processes that keep processors busy, to run the loop on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# The process ends when its parent has ended, and after an hour at the latest.
_SPIN = """
import os, sys, time
parent, end = int(sys.argv[1]), time.monotonic() + 3600
while os.getppid() == parent and time.monotonic() < end:
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def spinning_processes(count: int) -> Iterator[list[int]]:
    """Keeps ``count`` processors busy inside the block; yields the process ids."""
    command = [sys.executable, "-c", _SPIN, str(os.getpid())]
    children = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield [child.pid for child in children]
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()
