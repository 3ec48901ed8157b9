"""Replays the flights in time order as files, at a steady rate, repeatedly.

The data set is cut once into chunks of lines. File n of the input is a copy of chunk n modulo the
number of chunks. The data is unmodified, every pass is counted again, and the file names show where
to continue after a restart. Spark moves processed files from the input to the archive.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from examples.flights.weather import flight_lines

log = logging.getLogger("ballast.flights")

CHUNK_RECORDS = 1_000
BACKLOG_S = 10.0
KEEP_PASSES = 3
"""Passes of archived input that are kept; older ones are identical and only counted."""


@dataclass(frozen=True)
class FlightsFolder:
    """The folders of the job's input, inside the job's folder."""

    root: Path

    @property
    def chunks(self) -> Path:
        """The chunks of the data set."""
        return self.root / "chunks"

    @property
    def input(self) -> Path:
        """Files that the job reads."""
        return self.root / "input"

    @property
    def archive(self) -> Path:
        """Files that the job has processed."""
        return self.root / "archive"

    @property
    def rate_file(self) -> Path:
        """Records a second, as a number; writing it changes the rate of a running feeder."""
        return self.root / "rate"

    def waiting(self, taken: int) -> int:
        """Records that wait in the input at the end of a batch that took ``taken``.

        Spark moves a batch's files away when the next one begins, so they are still there.
        """
        files = sum(1 for _ in self.input.glob("flights-*.csv"))
        return max(0, files * CHUNK_RECORDS - taken)

    def files(self) -> dict[int, Path]:
        """Every input file by its number, processed or not."""
        waiting = {_number(path): path for path in self.input.glob("flights-*.csv")}
        return self.counted() | waiting

    def counted(self) -> dict[int, Path]:
        """Input files that were processed and archived, by number."""
        return {_number(path): path for path in self.archive.rglob("flights-*.csv")}

    def passes_removed(self) -> int:
        """Number of whole passes that were processed and removed."""
        try:
            return int(json.loads((self.root / "removed.json").read_text())["passes"])
        except FileNotFoundError:
            return 0

    def remove_passes(self, passes: int) -> None:
        """Removes processed files of the first ``passes`` passes; the number is stored before."""
        size = len(chunk_files(self.chunks))
        noted = self.root / "removed.json.new"
        noted.write_text(json.dumps({"passes": passes}))
        os.replace(noted, self.root / "removed.json")
        for number, path in self.counted().items():
            if number < passes * size:
                path.unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("flights-"))


def chunk_files(chunks: Path) -> list[Path]:
    """The chunks in the order of time."""
    return sorted(chunks.glob("chunk-*.csv"))


def prepare_chunks(chunks: Path, lines: Callable[[], list[str]] = flight_lines) -> list[Path]:
    """Cuts the input's lines into chunks, unless that was done before."""
    if not chunks.is_dir():
        text = lines()
        partial = chunks.with_name(f"{chunks.name}.{os.getpid()}.new")
        partial.mkdir(parents=True)
        for number in range(math.ceil(len(text) / CHUNK_RECORDS)):
            part = text[number * CHUNK_RECORDS : (number + 1) * CHUNK_RECORDS]
            (partial / f"chunk-{number:06d}.csv").write_text("".join(part))
        os.replace(partial, chunks)
    return chunk_files(chunks)


def files_at_most(rate: float) -> int:
    """Files that may wait in the input."""
    return max(4, math.ceil(rate * BACKLOG_S / CHUNK_RECORDS))


def set_rate(folder: FlightsFolder, rate: float) -> None:
    """Changes the rate of a running feeder."""
    partial = folder.rate_file.with_suffix(".new")
    partial.write_text(f"{rate!r}")
    os.replace(partial, folder.rate_file)


class Feeder(threading.Thread):
    """Puts files into the input at ``rate`` records a second; waits while too many are there.

    The rate is that of :func:`set_rate` where it was called, also after a restart.
    """

    def __init__(
        self,
        folder: FlightsFolder,
        rate: float,
        records: int | None = None,
        lines: Callable[[], list[str]] = flight_lines,
    ) -> None:
        super().__init__(name="flights-feeder", daemon=True)
        self.folder, self.rate = folder, rate
        self.chunks = prepare_chunks(folder.chunks, lines)
        self.files_left = math.inf if records is None else math.ceil(records / CHUNK_RECORDS)
        self.largest_backlog = files_at_most(rate)
        self.stopping = threading.Event()
        self.fed = 0
        folder.input.mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        """Feeds until stopped or done."""
        number = self._next_number()
        due = time.monotonic()
        while self.files_left > 0 and not self.stopping.wait(max(0.0, due - time.monotonic())):
            if self._is_backed_up():
                # Time that was lost is not made up for, so that there is no burst afterwards.
                due = time.monotonic() + 0.1
                continue
            self._put(number)
            number += 1
            self.files_left -= 1
            due = max(due, time.monotonic() - 1.0) + CHUNK_RECORDS / self._rate()

    def stop(self) -> None:
        """Stops feeding."""
        self.stopping.set()
        if self.is_alive():
            self.join()

    def _rate(self) -> float:
        """The rate that was last set; a file that cannot be read changes nothing."""
        try:
            rate = float(self.folder.rate_file.read_text())
        except (OSError, ValueError):
            return self.rate
        if math.isfinite(rate) and rate > 0 and rate != self.rate:
            self.rate, self.largest_backlog = rate, files_at_most(rate)
        return self.rate

    def _put(self, number: int) -> None:
        chunk = self.chunks[number % len(self.chunks)]
        hidden = self.folder.input / f".flights-{number:010d}.csv"
        shutil.copyfile(chunk, hidden)
        os.replace(hidden, self.folder.input / f"flights-{number:010d}.csv")
        self.fed += 1
        passes, position = divmod(number, len(self.chunks))
        if position == 0 and passes > KEEP_PASSES:
            self.folder.remove_passes(passes - KEEP_PASSES)

    def _next_number(self) -> int:
        known = self.folder.files()
        removed = self.folder.passes_removed() * len(self.chunks)
        return max(max(known, default=-1) + 1, removed)

    def _is_backed_up(self) -> bool:
        return sum(1 for _ in self.folder.input.glob("flights-*.csv")) >= self.largest_backlog
