"""Collects the windows of a Flink job: looks at it at the end of each, writes each window once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.engines.flink.counters import JobSample
from ballast.engines.flink.followed_plan import FollowedPlan
from ballast.engines.flink.job_view import FlinkJob, JobMissing, JobView
from ballast.engines.flink.window_rows import MeasuredWindow, rows_of_window
from ballast.store.metric_windows import append_windows

log = logging.getLogger("ballast.engines")
SAMPLE_WITHIN_MS = 1_500
"""How soon after a window's end the job must have answered."""
FETCH_BEFORE_MS = 1_200
"""How long before a window's end the cluster is asked to fetch metrics.

It answers with what it fetched before, and fetches again when it is asked.
"""


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class FlinkCollector:
    """Writes the windows of one job.

    Args:
        settings: where the tables are.
        policy: the job's policy.
        job: answers questions about the job.
        plan: gives the version that the job runs under.
        clock: gives the time in milliseconds.
    """

    def __init__(
        self,
        settings: Settings,
        policy: JobPolicy,
        job: FlinkJob,
        plan: Callable[[], FollowedPlan],
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self._settings, self._policy, self._job = settings, policy, job
        self._plan, self._clock = plan, clock
        self._length_ms = round(1000 * policy.window_s)
        self._samples: dict[int, JobSample] = {}
        self._looked: set[int] = set()
        """Ends of windows that the job was looked at for, or that are over."""
        self._fetched_for = 0
        self._looks = 0
        self._said = ""

    def collect(self) -> int:
        """Append the window that has just ended, if it was measured; return 1, or 0 if it was not.

        A window that nobody looked at in time is a gap.
        """
        now = self._clock()
        end = now - now % self._length_ms
        if end not in self._looked:
            self._looked = {end}
            if now - end <= SAMPLE_WITHIN_MS:
                return self._end_window(end)
        elif now >= end + self._length_ms - FETCH_BEFORE_MS and self._fetched_for != end:
            self._fetched_for = end
            self._look()
        return 0

    def _end_window(self, end: int) -> int:
        before = self._samples.get(end - self._length_ms)
        sample = self._sample(end)
        self._samples = {} if sample is None else {end: sample}
        looks, self._looks = self._looks, 0
        if sample is None or before is None:
            return 0
        window = MeasuredWindow(end - self._length_ms, self._length_ms, before, sample, looks)
        rows = rows_of_window(window, self._policy, datetime.now(UTC))
        self._tell_gap(window)
        append_windows(self._settings, self._policy.job, rows, window.number)
        return int(any(rows.values()))

    def _sample(self, end: int) -> JobSample | None:
        """The job at the end of a window; None if it cannot be looked at, or not in time."""
        plan, view = self._plan(), self._look()
        if view is None or self._clock() - end > SAMPLE_WITHIN_MS:
            return None
        checkpoint = self._job.checkpoint(view.job_id)
        operators = [operator.id for operator in self._policy.operators]
        return JobSample(
            view,
            plan.version,
            plan.sizes,
            {name: self._job.pending_records(view, name) for name in self._policy.entry_operators},
            {
                name: None
                if checkpoint is None
                else self._job.state_sizes(view, name, checkpoint.number)
                for name in operators
            },
        )

    def _look(self) -> JobView | None:
        try:
            view = self._job.view()
        except JobMissing as error:
            self._tell(f"nothing is measured: {error}")
            return None
        self._looks += 1
        return view

    def _tell_gap(self, window: MeasuredWindow) -> None:
        """Log, once, why a window has no rows or lacks some."""
        after = window.after
        if not after.view.is_running:
            self._tell(f"nothing is measured: its state is {after.view.state}, or a subtask waits")
        elif not after.is_as_planned:
            found, planned = dict(after.view.sizes), dict(after.planned)
            what = f"version {after.version}" if after.version else "engine.vertices in the policy"
            self._tell(f"nothing is measured: it runs with {found}, and {what} says {planned}")
        elif None in after.state_bytes.values():
            names = ", ".join(n for n, state in after.state_bytes.items() if state is None)
            self._tell(f"no completed checkpoint has the state of {names}, so it is not measured")
        else:
            self._said = ""

    def _tell(self, text: str) -> None:
        if text != self._said:
            log.warning("job %s: %s", self._policy.job, text)
        self._said = text
