"""What a member does in each window: records, bytes, CPU and busy time of each partition.

Windows are aligned to the clock, so that those of all members are the same. A batch of records
counts in the window in which it ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ballast.engines.kafka.assignment import Partition
from ballast.engines.kafka.messages import PartitionReport, WindowReport


@dataclass(frozen=True)
class BatchUse:
    """What a batch of records of one partition needed."""

    records: int
    bytes: int
    cpu_ms: float
    busy_ms: float


@dataclass
class _PartitionWindow:
    held_from_ms: int
    records: int = 0
    bytes: int = 0
    cpu_ms: float = 0.0
    busy_ms: float = 0.0

    def add(self, use: BatchUse) -> None:
        self.records += use.records
        self.bytes += use.bytes
        self.cpu_ms += use.cpu_ms
        self.busy_ms += use.busy_ms


@dataclass
class _Window:
    start_ms: int
    heartbeats: int = 0
    partitions: dict[Partition, _PartitionWindow] = field(default_factory=dict)


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class WindowMeter:
    """Counts what a member does. Called by the polling thread, read by the reporting thread.

    Until the length of windows is known nothing is counted. The window in which counting begins is
    reported as not whole.

    Args:
        node_id: the node that the member is.
        process_id: unique for the process.
        clock: gives the time; a step back is ignored.
    """

    def __init__(self, node_id: str, process_id: str, clock: Callable[[], int] = wall_ms) -> None:
        self._node_id, self._process_id, self._clock = node_id, process_id, clock
        self._lock = threading.Lock()
        self._length_ms = 0
        self._began_ms = 0
        self._now_ms = 0
        self._version = 0
        self._window = _Window(0)
        self._finished: list[WindowReport] = []

    def set_length(self, length_ms: int) -> None:
        """Use windows of this length from now on; what was counted for other ones is dropped."""
        with self._lock:
            if length_ms == self._length_ms:
                return
            now = self._now()
            held = self._window.partitions
            self._length_ms, self._began_ms = length_ms, now
            self._window = _Window(now - now % length_ms)
            self._window.partitions = {p: _PartitionWindow(now) for p in held}

    def set_version(self, version: int) -> None:
        """The plan version that the partitions are assigned under."""
        with self._lock:
            self._roll()
            self._version = version

    def hold(self, partitions: Iterable[Partition]) -> None:
        """The member got partitions."""
        with self._lock:
            now = self._roll()
            for partition in partitions:
                self._window.partitions.setdefault(partition, _PartitionWindow(now))

    def release(self, partitions: Iterable[Partition]) -> None:
        """The member gave partitions up; what it did for them in this window is not reported."""
        with self._lock:
            self._roll()
            for partition in partitions:
                self._window.partitions.pop(partition, None)

    def beat(self) -> None:
        """The member polled."""
        with self._lock:
            self._roll()
            self._window.heartbeats += 1

    def add(self, partition: Partition, use: BatchUse) -> None:
        """The member processed a batch; it is not counted if the partition was lost meanwhile."""
        with self._lock:
            self._roll()
            if partition in self._window.partitions:
                self._window.partitions[partition].add(use)

    def finished(self) -> list[WindowReport]:
        """The windows that ended since the last call, oldest first."""
        with self._lock:
            self._roll()
            finished, self._finished = self._finished, []
            return finished

    def _roll(self) -> int:
        """Closes windows that have ended; returns the time."""
        now = self._now()
        while self._length_ms and now >= self._window.start_ms + self._length_ms:
            ended = self._window
            self._finished.append(self._report(ended))
            start = ended.start_ms + self._length_ms
            self._window = _Window(start)
            self._window.partitions = {
                p: _PartitionWindow(w.held_from_ms) for p, w in ended.partitions.items()
            }
        return now

    def _now(self) -> int:
        self._now_ms = max(self._now_ms, self._clock())
        return self._now_ms

    def _report(self, window: _Window) -> WindowReport:
        return WindowReport(
            node_id=self._node_id,
            process_id=self._process_id,
            start_ms=window.start_ms,
            length_ms=self._length_ms,
            version=self._version,
            heartbeats=window.heartbeats,
            is_whole=self._began_ms <= window.start_ms,
            partitions=tuple(
                PartitionReport(
                    topic, number, held.records, held.bytes, held.cpu_ms, held.busy_ms,
                    max(held.held_from_ms, self._began_ms) <= window.start_ms,
                )
                for (topic, number), held in sorted(window.partitions.items())
            ),
        )  # fmt: skip
