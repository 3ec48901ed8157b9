"""Writes the state of the job in each window to ``metrics.jobs``, measured or not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ballast.contracts.records import JobWindow
from ballast.contracts.settings import Settings
from ballast.store.metric_windows import utc_time
from ballast.store.tables import append_once
from ballast.streaming.job_health import JobHealth, window_state
from ballast.streaming.metrics_window import window_start

log = logging.getLogger("ballast.streaming")


@dataclass(frozen=True)
class PlanInForce:
    """The version of the newest batch, and how long ago the head was read."""

    version: int
    head_age_s: float | None
    """None before the first time."""


class JobReporter:
    """Appends a row for each window that has ended; a window that cannot be written is left out.

    Args:
        settings: where the tables are.
        job: name of the job.
        length_ms: length of a window.
        health: the state of the job.
        plan: gives the plan in force.
        clock: gives the time in milliseconds.
    """

    def __init__(
        self,
        settings: Settings,
        job: str,
        length_ms: int,
        health: JobHealth,
        plan: Callable[[], PlanInForce],
        clock: Callable[[], int],
    ) -> None:
        self.settings, self.job, self.length_ms = settings, job, length_ms
        self.health, self.plan, self.clock = health, plan, clock
        self._batches_before = 0

    def write(self) -> None:
        """Writes the row of the window that ended last; only the flushing thread calls this."""
        end = window_start(self.clock(), self.length_ms)
        health, plan = self.health.state, self.plan()
        batches = self.health.batches - self._batches_before
        self._batches_before = self.health.batches
        window = JobWindow(
            job=self.job,
            window_date=utc_time(end).date(),
            window_start_at=utc_time(end - self.length_ms),
            window_end_at=utc_time(end),
            plan_version=plan.version,
            emitted_at=datetime.now(UTC),
            state=window_state(health, batches),
            state_since_at=utc_time(health.since_ms),
            executors=health.executors,
            head_age_s=plan.head_age_s,
        )
        try:
            append_once(
                self.settings, window.table, [window.to_row()],
                app_id=f"ballast.{window.table}/{self.job}", app_version=end,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - metrics must not stop the job they measure
            log.warning("the state of job %s could not be written: %s", self.job, error)
