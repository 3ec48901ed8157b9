"""Which window a batch belongs to, and which windows a job was alive in. Pure functions.

A batch belongs to the window in which it ends. A live job has no gaps: a window without a batch
is a window with zero activity. The time before a process's first batch is a gap: nothing is known
of it, and unknown is never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ballast.streaming.figures import BatchFigures, MetricsWindow


def window_start(ms: int, length_ms: int) -> int:
    """Start of the window that holds a moment."""
    return ms // length_ms * length_ms


def first_open_window(flushed_until_ms: int, length_ms: int) -> int:
    """The first window that lies wholly after what has been written."""
    return -(-flushed_until_ms // length_ms) * length_ms


def covered_windows(
    pending: Iterable[BatchFigures],
    open_from_ms: int,
    length_ms: int,
    live: tuple[int, int] | None = None,
) -> list[int]:
    """Starts of the windows the job was alive in, from ``open_from_ms`` on, in order.

    ``live`` are the windows this process vouches for, batches or not: from the one of its first
    batch to the first that is still open. Without a batch it vouches only for what it found.
    """
    covered: set[int] = set()
    cursor = open_from_ms
    for batch in sorted(pending, key=lambda batch: batch.batch_id):
        begin = batch.window_ms if batch.opens_life else min(cursor, batch.window_ms)
        covered.update(range(begin, batch.window_ms + 1, length_ms))
        cursor = max(cursor, batch.window_ms + length_ms)
    if live is not None:
        covered.update(range(max(cursor, live[0]), live[1], length_ms))
    return sorted(covered)


def build_windows(
    starts: Sequence[int], batches: Sequence[BatchFigures], length_ms: int
) -> list[MetricsWindow]:
    """The windows that begin at ``starts``; one before every batch known has nothing to say."""
    ordered = sorted(batches, key=lambda batch: batch.batch_id)
    windows = []
    for start in starts:
        inside = tuple(batch for batch in ordered if batch.window_ms == start)
        past = [batch for batch in ordered if batch.window_ms <= start]
        if past:
            windows.append(MetricsWindow(start, start + length_ms, inside, past[-1]))
    return windows
