"""How a program of ours ends."""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn

EXIT_OUTPUT_LOST = 1
"""Of a program that did its work and could not say so, as on a full disk."""


def exit_now(exit_code: int) -> NoReturn:
    """End the process at once, with everything it said written out.

    By now every commit is made and what had to be stopped is. The interpreter's own end would
    still take native libraries down beneath their threads, which may abort a program that has
    done its work (exit code 134): a task would be tried again, a script would think it failed.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as where it was closed before the start
            try:
                stream.flush()
            except (OSError, ValueError):
                exit_code = exit_code or EXIT_OUTPUT_LOST
    os._exit(exit_code)
