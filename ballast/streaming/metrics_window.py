"""Windows of processing time: which batches belong to each, and what they add up to.

A batch belongs to the window in which it ends. While a job waits for input, or runs a batch that
ends later, a window without a batch is a window with zero activity. The time before the first batch
of a process is a gap: no window is written for it, because nothing was measured. So is the time in
which a job had no executor or ended no batch (ballast/streaming/job_health.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ballast.streaming.batch_figures import (
    BatchFigures,
    Edge,
    GroupFigures,
    KeyGroup,
    KeyPair,
    Link,
    Of,
)
from ballast.streaming.heavy_keys import KEPT_IN_WINDOW, Item, Summary, added, cut


@dataclass(frozen=True)
class CountedBatch:
    """A batch with the window that it is counted in."""

    figures: BatchFigures
    ended_ms: int
    window_ms: int
    """Start of the window."""
    first_of_process: bool
    """Whether it is the first batch of a process, or the first after a time in which the job was
    not measured: nothing is known of the time before it."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, which :meth:`from_json` reads."""
        return self.figures.to_json() | {
            "ended_ms": self.ended_ms,
            "window_ms": self.window_ms,
            "opens_life": self.first_of_process,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CountedBatch:
        """The batch that :meth:`to_json` wrote."""
        return cls(
            BatchFigures.from_json(values),
            values["ended_ms"],
            values["window_ms"],
            values["opens_life"],
        )


@dataclass(frozen=True)
class NodeUse:
    """What a node did in a window."""

    heartbeats: int
    records: int
    cpu_ms: float
    state_bytes: int
    network_bytes: int


@dataclass(frozen=True)
class MetricsWindow:
    """The batches that ended in a window, and the state of the job at its end."""

    start_ms: int
    end_ms: int
    batches: tuple[BatchFigures, ...]
    last: BatchFigures
    """The last batch of the window, or of an earlier one if the window has none."""

    @property
    def groups(self) -> dict[KeyGroup, GroupFigures]:
        """Every key group's activity in the window."""
        total = {name: figures.idle() for name, figures in self.last.groups.items()}
        for batch in self.batches:
            for name, figures in batch.groups.items():
                total[name] = total[name].then(figures) if name in total else figures
        return total

    @property
    def traffic(self) -> dict[Link, tuple[int, int]]:
        """Records and bytes of each link in the window."""
        total: dict[Link, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for batch in self.batches:
            for link, (records, size) in batch.traffic.items():
                before = total[link]
                total[link] = (before[0] + records, before[1] + size)
        return dict(total)

    @property
    def keys(self) -> dict[str, Summary[str]]:
        """The heaviest keys of each operator in the window."""
        return _over_batches([batch.keys for batch in self.batches])

    @property
    def pairs(self) -> dict[Edge, Summary[KeyPair]]:
        """The heaviest pairs of keys of each edge in the window."""
        return _over_batches([batch.pairs for batch in self.batches])

    @property
    def records(self) -> int:
        """Records that the first operator took from the source."""
        first = next(iter(self.last.groups), ("", 0))[0]
        return sum(f.records for (operator, _), f in self.groups.items() if operator == first)

    @property
    def arrived(self) -> int | None:
        """Records that arrived at the source; None if one batch did not measure it."""
        if not self.batches:
            # What arrived meanwhile is counted with the next batch.
            return None if self.last.backlog is None else 0
        known = [batch.arrived for batch in self.batches if batch.arrived is not None]
        return sum(known) if len(known) == len(self.batches) else None

    def node_use(self) -> dict[str, NodeUse]:
        """What each reporting node did.

        Activity counts for the node that did the work, state for the node that holds it at the
        end. A window without a batch has the nodes of the last batch, with no heartbeat.
        """
        heartbeats = dict.fromkeys(self.last.nodes if not self.batches else (), 0)
        records: dict[str, int] = defaultdict(int)
        cpu: dict[str, float] = defaultdict(float)
        network: dict[str, int] = defaultdict(int)
        for batch in self.batches:
            for node in batch.nodes:
                heartbeats[node] = heartbeats.get(node, 0) + 1
            for figures in batch.groups.values():
                records[figures.node_id] += figures.records
                cpu[figures.node_id] += figures.cpu_ms
                network[figures.node_id] += figures.bytes_in + figures.bytes_out
        memory: dict[str, int] = defaultdict(int)
        for figures in self.last.groups.values():
            memory[figures.node_id] += figures.state_bytes
        return {
            node: NodeUse(count, records[node], cpu[node], memory[node], network[node])
            for node, count in heartbeats.items()
        }


def _over_batches(batches: Iterable[Mapping[Of, Summary[Item]]]) -> dict[Of, Summary[Item]]:
    total: dict[Of, Summary[Item]] = {}
    for batch in batches:
        for name, summary in batch.items():
            before = total.get(name)
            total[name] = summary if before is None else added(before, summary)
    return {name: cut(summary, KEPT_IN_WINDOW) for name, summary in total.items()}


def window_start(ms: int, length_ms: int) -> int:
    """Start of the window that contains a time."""
    return ms // length_ms * length_ms


def first_open_window(written_until_ms: int, length_ms: int) -> int:
    """Start of the first window that lies wholly after what has been written."""
    return -(-written_until_ms // length_ms) * length_ms


def covered_windows(
    pending: Iterable[CountedBatch],
    open_from_ms: int,
    length_ms: int,
    live: tuple[int, int] | None = None,
) -> list[int]:
    """Starts of the windows in which the job ran, in order.

    Args:
        pending: batches that are not written yet.
        open_from_ms: start of the first window that is not written yet.
        length_ms: length of a window.
        live: windows in which this process ran, with or without a batch: the start of the window
            of its first batch, and the start of the first window that is still open. None before
            its first batch.
    """
    covered: set[int] = set()
    cursor = open_from_ms
    for batch in sorted(pending, key=lambda batch: batch.figures.batch_id):
        begin = batch.window_ms if batch.first_of_process else min(cursor, batch.window_ms)
        covered.update(range(begin, batch.window_ms + 1, length_ms))
        cursor = max(cursor, batch.window_ms + length_ms)
    if live is not None:
        covered.update(range(max(cursor, live[0]), live[1], length_ms))
    return sorted(covered)


def build_windows(
    starts: Sequence[int], batches: Sequence[CountedBatch], length_ms: int
) -> list[MetricsWindow]:
    """The windows that begin at ``starts``; windows before every known batch are left out."""
    ordered = sorted(batches, key=lambda batch: batch.figures.batch_id)
    windows = []
    for start in starts:
        inside = tuple(batch.figures for batch in ordered if batch.window_ms == start)
        past = [batch.figures for batch in ordered if batch.window_ms <= start]
        if past:
            windows.append(MetricsWindow(start, start + length_ms, inside, past[-1]))
    return windows
