"""How a program of ours ends."""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn


def leave(exit_code: int) -> NoReturn:
    """End the process at once, with everything it said written out.

    By now every commit is made and what had to be stopped is. The interpreter's own end would
    still take native libraries down beneath their threads, which may abort a program that has
    done its work (exit code 134): a task would be tried again, a script would think it failed.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
