"""Lines of progress on the terminal."""

from __future__ import annotations

import time


def print_progress(line: str) -> None:
    """Prints one line with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
