"""Durable ledger of batch figures; it hands each window to the metrics writer exactly once.

The figures of a batch are a file before the batch commits, so that a crash loses none. A flush
first records on disk which windows it writes under which number. The tables store that number with
the rows, so that a process that died during a flush repeats it and adds only what is missing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ballast.streaming.atomic_files import read_json, write_json
from ballast.streaming.batch_figures import BatchFigures
from ballast.streaming.metrics_window import (
    CountedBatch,
    MetricsWindow,
    build_windows,
    covered_windows,
    first_open_window,
    window_start,
)

log = logging.getLogger("ballast.streaming")

SEEN_FOR_MS = 1_000
"""An idle job is looked at twice a second, and is idle until the next look."""

Publish = Callable[[Sequence[MetricsWindow], int], None]
"""Writes windows under a number; a second call with the same number writes nothing."""


@dataclass(frozen=True)
class Mark:
    """How far windows were written, and the windows of an unfinished flush, if any."""

    flushed_until_ms: int = 0
    length_ms: int = 0
    starts: tuple[int, ...] = ()

    @property
    def closed_until_ms(self) -> int:
        """End of the last window that can get no more batches."""
        flushing = self.starts[-1] + self.length_ms if self.starts else 0
        return max(self.flushed_until_ms, flushing)


class Ledger:
    """Takes batches from the thread of the batch, writes windows from the flushing thread."""

    def __init__(
        self, folder: Path, length_ms: int, clock: Callable[[], int], publish: Publish
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.length_ms, self.clock, self.publish = folder, length_ms, clock, publish
        self.lock = threading.Lock()
        self.live_from: int | None = None
        self.seen_until_ms = 0
        stored = read_json(folder / "mark.json")
        self.mark = Mark(**stored | {"starts": tuple(stored["starts"])}) if stored else Mark()
        self.batches = {
            batch.figures.batch_id: batch
            for batch in map(_read_batch, sorted(folder.glob("batch-*.json")))
        }

    def has(self, batch_id: int) -> bool:
        """Whether the batch was counted; a replay is not counted again."""
        return bool(self.batches) and batch_id <= max(self.batches)

    def record(self, figures: BatchFigures) -> None:
        """Counts a batch in the window of the present time and makes that durable."""
        with self.lock:
            if not self.has(figures.batch_id):
                # Under the lock: no window can be closed between the time and the entry.
                ended = self.clock()
                window = max(window_start(ended, self.length_ms), self._open_from())
                batch = CountedBatch(figures, ended, window, self.live_from is None)
                write_json(self._path(figures.batch_id), batch.to_json())
                self.batches[figures.batch_id] = batch
                if self.live_from is None:
                    self.live_from = batch.window_ms
                self.seen_until_ms = max(self.seen_until_ms, ended)

    def saw_idle(self, at_ms: int) -> None:
        """Says that the job waited for input: windows up to now without a batch had no activity."""
        with self.lock:
            self.seen_until_ms = max(self.seen_until_ms, at_ms + SEEN_FOR_MS)

    def lose(self) -> None:
        """Says that nothing is known of the job: from the last batch to the next one is a gap."""
        with self.lock:
            self.live_from = None

    def flush(self, *, closing: bool = False) -> list[MetricsWindow]:
        """Writes every window that has ended; when closing, also the present one.

        Called by one thread only. Windows that cannot be written are written by the next flush.

        Returns:
            The windows that were written.
        """
        written = self._deliver() if self.mark.starts else []
        with self.lock:
            pending = [b for b in self.batches.values() if self._open_from() <= b.window_ms]
            until = window_start(self.clock(), self.length_ms)
            if closing:
                until = max([until, *(batch.window_ms for batch in pending)]) + self.length_ms
            over = [b for b in pending if b.window_ms < until]
            live = self._live(until, closing=closing)
            starts = covered_windows(over, self._open_from(), self.length_ms, live)
            if not starts:
                return written
            self._set_mark(Mark(self.mark.flushed_until_ms, self.length_ms, tuple(starts)))
        return written + self._deliver()

    def _live(self, until: int, *, closing: bool) -> tuple[int, int] | None:
        """Windows known to have no activity if they have no batch.

        While a batch runs, nothing is known of it. Its windows are written when it ends.
        """
        if self.live_from is None:
            return None
        seen = window_start(self.seen_until_ms, self.length_ms)
        if closing:
            seen += self.length_ms  # the present window is written as it is
        return self.live_from, min(until, seen)

    def _deliver(self) -> list[MetricsWindow]:
        mark = self.mark
        until = mark.closed_until_ms
        windows = build_windows(mark.starts, list(self.batches.values()), mark.length_ms)
        # The end of the last window only rises, even if the job's folder was lost.
        self.publish(windows, until)
        with self.lock:
            self._set_mark(Mark(until, self.length_ms))
            self._forget()
        return windows

    def _forget(self) -> None:
        """Drops written batches but the newest, which a window without batches needs."""
        done = sorted(b for b in self.batches if self.batches[b].window_ms < self._open_from())
        for batch_id in done[:-1]:
            del self.batches[batch_id]
            self._path(batch_id).unlink(missing_ok=True)

    def _open_from(self) -> int:
        """Start of the first window that is neither written nor being written."""
        return first_open_window(self.mark.closed_until_ms, self.length_ms)

    def _set_mark(self, mark: Mark) -> None:
        write_json(self.folder / "mark.json", asdict(mark))
        self.mark = mark

    def _path(self, batch_id: int) -> Path:
        return self.folder / f"batch-{batch_id:014d}.json"


class Flusher(threading.Thread):
    """A thread that flushes the ledger after each window, with or without batches.

    Args:
        ledger: the ledger.
        on_window: called with each window that was written.
        report: writes the state of the job; called after each window, measured or not.
    """

    def __init__(
        self,
        ledger: Ledger,
        on_window: Callable[[MetricsWindow], None],
        report: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name="ballast-flusher", daemon=True)
        self.ledger, self.on_window, self.report = ledger, on_window, report
        self.stopping = threading.Event()

    def run(self) -> None:
        """Flushes soon after the end of each window, until stopped."""
        while not self.stopping.wait(self._seconds_to_next()):
            self.flush()
            self.report()

    def flush(self, *, closing: bool = False) -> bool:
        """Flushes; returns False, and logs it, if the tables cannot be reached."""
        try:
            windows = self.ledger.flush(closing=closing)
        except Exception as error:  # noqa: BLE001 - metrics must not stop the job they measure
            log.warning("metrics could not be written and will be tried again: %s", error)
            return False
        for window in windows:
            self.on_window(window)
        return True

    def finish(self) -> bool:
        """Stops the thread and writes what is left; returns whether that succeeded.

        The thread may wait for a store that does not answer, which has a limit of its own.
        """
        self.stopping.set()
        if self.is_alive():
            self.join()
        written = self.flush(closing=True)
        self.report()
        return written

    def _seconds_to_next(self) -> float:
        length = self.ledger.length_ms
        now = self.ledger.clock()
        return (window_start(now, length) + length - now) / 1000 + 0.05


def _read_batch(path: Path) -> CountedBatch:
    return CountedBatch.from_json(read_json(path) or {})
