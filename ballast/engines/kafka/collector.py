"""Collects the windows of a consumer group: waits for its members' reports, writes each once."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ballast.contracts.engine import KafkaEngine
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.engines.kafka.group_view import Broker, TopicOffsets
from ballast.engines.kafka.messages import TakeUpReport, WindowReport
from ballast.engines.kafka.meter import wall_ms
from ballast.engines.kafka.report_log import ReportRecord
from ballast.engines.kafka.window_rows import (
    Arrivals,
    CollectedWindow,
    rows_of_window,
    unknown_nodes,
)
from ballast.store.metric_windows import append_windows

log = logging.getLogger("ballast.engines")
GRACE_MS = 2_000
"""How long after a window's end its reports are waited for."""
SAMPLE_WITHIN_MS = 1_000
"""How soon after a window's end the broker must have been asked for offsets."""


@dataclass
class _OpenWindow:
    first_offset: int
    reports: dict[str, WindowReport] = field(default_factory=dict)
    """By process."""


class KafkaCollector:
    """Writes the windows of one job.

    Args:
        settings: where the tables are.
        policy: the job's policy.
        engine: its section about the engine.
        broker: answers questions about offsets.
        done_until: notes which reports are not needed again.
        clock: gives the time in milliseconds.
    """

    def __init__(
        self,
        settings: Settings,
        policy: JobPolicy,
        broker: Broker,
        done_until: Callable[[int | None], None],
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self._settings, self._policy, self._broker = settings, policy, broker
        self._done_until, self._clock = done_until, clock
        self._length_ms = round(1000 * policy.window_s)
        self._open: dict[int, _OpenWindow] = {}
        self._written_until_ms = 0
        self._take_ups: dict[int, TakeUpReport] = {}
        self._offsets: dict[int, TopicOffsets] = {}
        self._sampled_ms = 0

    def take(self, record: ReportRecord) -> None:
        """Note a report; one of a window that was written already comes too late."""
        report = record.report
        if isinstance(report, TakeUpReport):
            self._take_ups[record.offset] = report
        elif report.length_ms != self._length_ms:
            log.warning(
                "job %s: %s reports windows of %d ms, the policy has %d",
                self._policy.job, report.node_id, report.length_ms, self._length_ms,
            )  # fmt: skip
        elif report.start_ms < self._written_until_ms:
            log.warning(
                "job %s: a report of %s came after its window was written",
                self._policy.job, report.node_id,
            )  # fmt: skip
        else:
            window = self._open.setdefault(report.start_ms, _OpenWindow(record.offset))
            window.reports[report.process_id] = report

    def pauses_ms(self, version: int) -> dict[str, float]:
        """How long each process did not process while it took a version up, in all rounds."""
        pauses: dict[str, float] = defaultdict(float)
        for report in self._take_ups.values():
            if report.version == version:
                pauses[report.process_id] += report.pause_ms
        return dict(pauses)

    def forget_take_ups(self, version: int) -> None:
        """Note that a version and those before it are acknowledged."""
        self._take_ups = {o: r for o, r in self._take_ups.items() if r.version > version}

    def collect(self) -> int:
        """Append each window whose reports were waited for; return their number."""
        now = self._clock()
        self._sample_offsets(now)
        due = sorted(
            start for start in self._open if start + self._length_ms + GRACE_MS <= now
        )  # fmt: skip
        for start in due:
            self._write(start)
        if due:
            waiting = [window.first_offset for window in self._open.values()]
            self._done_until(min([*waiting, *self._take_ups], default=None))
        return len(due)

    def _write(self, start_ms: int) -> None:
        reports = tuple(self._open[start_ms].reports.values())
        window = CollectedWindow(
            start_ms, self._length_ms, reports, self._arrivals(start_ms + self._length_ms)
        )
        strange = unknown_nodes(window, self._policy)
        if strange:
            log.warning("job %s: the policy has no node %s; its metrics are left out",
                        self._policy.job, ", ".join(strange))  # fmt: skip
        rows = rows_of_window(window, self._policy, self._topics(), datetime.now(UTC))
        append_windows(
            self._settings, self._policy.job, rows, number=start_ms + self._length_ms
        )  # fmt: skip
        self._written_until_ms = start_ms + self._length_ms
        del self._open[start_ms]
        for passed in [end for end in self._offsets if end < start_ms]:
            del self._offsets[passed]

    def _sample_offsets(self, now: int) -> None:
        """Asks the broker for offsets once, soon after the end of each window."""
        end = now - now % self._length_ms
        if end == self._sampled_ms or now - end > SAMPLE_WITHIN_MS:
            return
        self._sampled_ms = end
        counts = {self._topics()[o.id]: o.key_groups for o in self._policy.operators}
        self._offsets[end] = self._broker.offsets(self._engine.group, counts)

    def _arrivals(self, end_ms: int) -> dict[str, Arrivals]:
        before, after = self._offsets.get(end_ms - self._length_ms), self._offsets.get(end_ms)
        return {topic: _arrivals(topic, before, after) for topic in self._topics().values()}

    def _topics(self) -> Mapping[str, str]:
        return {o.id: self._engine.topic_of(o.id) for o in self._policy.operators}

    @property
    def _engine(self) -> KafkaEngine:
        engine = self._policy.engine
        assert isinstance(engine, KafkaEngine)  # noqa: S101 - the session was made for one
        return engine


def _arrivals(topic: str, before: TopicOffsets | None, after: TopicOffsets | None) -> Arrivals:
    if after is None:
        return Arrivals()
    ends = {p: end for p, end in after.ends.items() if p[0] == topic}
    backlog = None
    if all(p in after.committed for p in ends):
        backlog = sum(max(0, end - after.committed[p]) for p, end in ends.items())
    if before is None:
        return Arrivals(None, backlog)
    return Arrivals(sum(max(0, e - before.ends.get(p, e)) for p, e in ends.items()), backlog)
