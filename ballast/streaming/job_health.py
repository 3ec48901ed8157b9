"""Watches a running job: whether it has executors, and whether its batches end.

After the Spark master was restarted without recovery, a driver goes on without executors and
measures nothing. The windows of this time are missing, and never zero. The log says so, and after a
time the process ends so that its supervisor starts it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ballast.contracts.job_states import IDLE, IN_BATCH, NO_EXECUTORS, RUNNING, STALLED, UNMEASURED

log = logging.getLogger("ballast.streaming")

STALLED_AFTER_WINDOWS = 3
STALLED_AFTER_S = 30.0
"""Least time without the end of a batch after which a job counts as stalled."""
SAMPLE_S = 0.5


@dataclass(frozen=True)
class HealthLimits:
    """When a job counts as stalled, and when its process ends."""

    stalled_after_s: float
    """Time without the end of a batch, while one runs."""
    end_without_executors_s: float
    """Time without executors after which the process ends."""


@dataclass(frozen=True)
class Sample:
    """What is seen of a running query at one time."""

    at_ms: int
    executors: int | None
    """None if it could not be found out."""
    waits_for_input: bool
    """Whether the query is between two triggers."""


@dataclass(frozen=True)
class HealthState:
    """The state of a job at a time, and since when."""

    state: str
    since_ms: int
    executors: int | None

    @property
    def is_measured(self) -> bool:
        """Whether windows without a batch are windows without activity."""
        return self.state not in UNMEASURED

    def lasts_s(self, now_ms: int) -> float:
        """Seconds since the state began."""
        return (now_ms - self.since_ms) / 1000


class JobHealth:
    """The state of a job, from samples and ends of batches; used by several threads.

    Args:
        limits: when a job counts as stalled, and when its process ends.
        now_ms: the present time.
    """

    def __init__(self, limits: HealthLimits, now_ms: int) -> None:
        self.limits = limits
        self.state = HealthState(IDLE, now_ms, None)
        self.batches = 0
        """Batches that have ended."""
        self._progress_ms = now_ms
        self._lock = threading.Lock()

    def batch_ended(self, now_ms: int) -> None:
        """Counts the end of a batch."""
        with self._lock:
            self.batches += 1
            self._progress_ms = now_ms

    def seconds_without_progress(self, now_ms: int) -> float:
        """Seconds since a batch ended or the job waited for input."""
        return (now_ms - self._progress_ms) / 1000

    def observe(self, sample: Sample) -> HealthState:
        """The state at a sample; ``since_ms`` is when what it says began."""
        with self._lock:
            if sample.waits_for_input and sample.executors != 0:
                self._progress_ms = sample.at_ms
            state = self._state_at(sample)
            since = self.state.since_ms
            if state != self.state.state:
                # A job is stalled since its last batch ended, which is earlier than now.
                since = self._progress_ms if state == STALLED else sample.at_ms
            self.state = HealthState(state, since, sample.executors)
            return self.state

    def must_end(self, now_ms: int) -> bool:
        """Whether the process must end, because it has had no executor for too long."""
        state = self.state
        limit = self.limits.end_without_executors_s
        return state.state == NO_EXECUTORS and state.lasts_s(now_ms) >= limit

    def _state_at(self, sample: Sample) -> str:
        if sample.executors == 0:
            return NO_EXECUTORS
        if sample.waits_for_input:
            return IDLE
        waited_s = (sample.at_ms - self._progress_ms) / 1000
        return STALLED if waited_s >= self.limits.stalled_after_s else IN_BATCH


def window_state(health: HealthState, batches_in_window: int) -> str:
    """The state of a job in a window: running if a batch ended in it and the job is measured."""
    if batches_in_window and health.is_measured:
        return RUNNING
    return health.state


def health_text(job: str, health: HealthState, limits: HealthLimits) -> str:
    """What to log about a job that is not measured."""
    since = datetime.fromtimestamp(health.since_ms / 1000, UTC).strftime("%H:%M:%S")
    missing = "its windows are missing in the tables, not zero"
    if health.state == NO_EXECUTORS:
        return (
            f"job {job} has had no executor since {since} UTC: nothing is processed, and "
            f"{missing}; without one for {limits.end_without_executors_s:.0f} s the process ends "
            "with exit code 10, so that its supervisor starts it again; see whether the Spark "
            "master and its workers run and have free cores"
        )
    return (
        f"job {job} has ended no batch since {since} UTC: {missing} until one ends; see whether "
        "an executor, the state folder or the source hangs; if so, stop the job with SIGTERM"
    )


class HealthWatch(threading.Thread):
    """Samples a running query twice a second; logs that it is not measured, or is again.

    Args:
        job: name of the job.
        health: its state.
        sample: gives a sample of the query.
        on_state: called with every state, by this thread.
    """

    def __init__(
        self,
        job: str,
        health: JobHealth,
        sample: Callable[[], Sample],
        on_state: Callable[[HealthState, int], Any],
    ) -> None:
        super().__init__(name="ballast-health", daemon=True)
        self.job, self.health, self.sample, self.on_state = job, health, sample, on_state
        self._stopping = threading.Event()
        self._said_ms: int | None = None

    def run(self) -> None:
        """Samples until stopped."""
        while not self._stopping.wait(SAMPLE_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - a sample that fails is taken again
                log.debug("the state of the query is unknown: %s", error)

    def look(self) -> HealthState:
        """Takes one sample."""
        before = self.health.state
        sample = self.sample()
        state = self.health.observe(sample)
        self.on_state(state, sample.at_ms)
        self._say(before, state, sample.at_ms)
        return state

    def finish(self) -> None:
        """Stops the thread; it does not wait for a sample that hangs."""
        self._stopping.set()

    def _say(self, before: HealthState, state: HealthState, now_ms: int) -> None:
        if not state.is_measured:
            repeat_ms = self.health.limits.stalled_after_s * 1000
            is_news = self._said_ms is None or state.state != before.state
            if is_news or now_ms - (self._said_ms or 0) >= repeat_ms:
                self._said_ms = now_ms
                log.error("%s", health_text(self.job, state, self.health.limits))
        elif not before.is_measured:
            self._said_ms = None
            log.warning(
                "job %s is measured again after %.0f s (%s)",
                self.job, before.lasts_s(now_ms), before.state,
            )  # fmt: skip
