"""The end of a process: output is flushed, then the process exits at once."""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn

EXIT_OUTPUT_LOST = 1
"""Exit code of a program that did its work but could not write its output, as on a full disk."""


def exit_now(exit_code: int) -> NoReturn:
    """Flush logs and output, then end the process without the interpreter's own shutdown.

    The interpreter's shutdown unloads native libraries while their threads still run, which may
    abort a program that has done its work (exit code 134). A task would then be tried again. The
    caller has made every commit and stopped every service before it calls this.

    Args:
        exit_code: the exit code; ``EXIT_OUTPUT_LOST`` takes the place of 0 if a flush fails.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if it was closed before the start
            try:
                stream.flush()
            except (OSError, ValueError):
                exit_code = exit_code or EXIT_OUTPUT_LOST
    os._exit(exit_code)
