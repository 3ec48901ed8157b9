"""A streaming job as its author declares it, and a running one."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ballast.contracts.errors import BallastError, JobStalled
from ballast.contracts.job_states import IDLE, NO_EXECUTORS
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings, check_job_name
from ballast.contracts.spark import check_master, executors_of
from ballast.store.table_schema import ensure_tables
from ballast.streaming.batch_runner import Backlog, JobRuntime
from ballast.streaming.job_health import (
    STALLED_AFTER_S,
    STALLED_AFTER_WINDOWS,
    HealthLimits,
    HealthState,
    HealthWatch,
    JobHealth,
    Sample,
    health_text,
)
from ballast.streaming.job_lock import JobLock
from ballast.streaming.job_report import JobReporter
from ballast.streaming.job_state import job_folder
from ballast.streaming.metrics_ledger import Flusher
from ballast.streaming.operators import Operator, build_topology
from ballast.streaming.task_errors import error_of_task

log = logging.getLogger("ballast.streaming")
JOB_TABLES = (
    "metrics.key_groups", "metrics.traffic", "metrics.key_pairs", "metrics.sources",
    "metrics.nodes", "metrics.jobs", "plans.acks",
)  # fmt: skip
POLL_S = 0.1
CANCEL_LIMIT_S = 30.0
"""Most time that Spark gets to cancel a batch."""


class _StopRequested(Exception):
    """Raised at the start of a batch when the job stops; the next start runs the batch."""


@dataclass(frozen=True)
class QueryOptions:
    """How Spark runs the job's query."""

    trigger_s: float = 1.0
    """Seconds between the starts of two batches, at least."""
    checkpoint: Path | str | None = None
    """Folder of Spark's checkpoint; None is the job's own folder."""
    stop_limit_s: float = 30.0
    """Most seconds that a job that stops waits for the end of a batch. The next start repeats a
    batch that was cancelled, so that no sum changes."""
    drain_limit_s: float = 120.0
    """Most seconds without the end of a batch while a job processes all input before it stops."""
    end_without_executors_s: float = 180.0
    """Seconds without an executor after which the job ends with :class:`JobStalled`."""


DEFAULT_OPTIONS = QueryOptions()


@dataclass(frozen=True)
class StreamingJob:
    """A streaming job as its author declares it.

    Attributes:
        job: name of the job and of its policy.
        source_key: SQL expression of the key of a record of the source.
        operators: the operators of the job.
        backlog: gives the records that wait at the source when a batch ends; it gets the number
            of records that the batch took. Without it the job cannot be scaled.
        advise: gives lines of advice on a policy, which are logged at the start.
    """

    job: str
    source_key: str
    operators: Sequence[Operator]
    backlog: Backlog | None = None
    advise: Callable[[JobPolicy], Sequence[str]] | None = None

    def __post_init__(self) -> None:
        check_job_name(self.job)

    def start(
        self,
        stream: DataFrame,
        settings: Settings,
        policy: JobPolicy,
        options: QueryOptions = DEFAULT_OPTIONS,
    ) -> RunningJob:
        """Starts the job, which then runs until :meth:`RunningJob.stop`.

        Raises:
            InvalidInput: the operators do not fit the policy, or the job already runs.
            SettingsError: the stream's session has another master than the settings.
        """
        check_master(stream.sparkSession.sparkContext.master, settings)
        topology = build_topology(self.job, self.operators, policy)
        for line in self.advise(policy) if self.advise else ():
            log.info("advice: %s", line)
        folder = job_folder(settings, self.job)
        lock = JobLock(folder / "job.lock", self.job)
        lock.__enter__()
        try:
            ensure_tables(settings, JOB_TABLES)
            runtime = JobRuntime(topology, self.source_key, settings, policy, folder, self.backlog)
            checkpoint = str(options.checkpoint or folder / "checkpoint")
            return RunningJob(lock, runtime, stream, checkpoint, options)
        except BaseException:
            lock.__exit__(None, None, None)
            raise

    def run(
        self,
        stream: DataFrame,
        settings: Settings,
        policy: JobPolicy,
        options: QueryOptions = DEFAULT_OPTIONS,
        *,
        stop: threading.Event | None = None,
        drain: bool = False,
    ) -> None:
        """Runs the job until SIGTERM, SIGINT or ``stop``.

        Args:
            stream: the source as a streaming data frame.
            settings: where tables and folders are.
            policy: the job's policy.
            options: how Spark runs the query.
            stop: an event that stops the job when it is set.
            drain: whether to process all input that is present before stopping.

        Raises:
            InvalidInput: the operators do not fit the policy, or the job already runs.
            JobStalled: the job had no executor for too long, or a batch did not end when the job
                was stopped. A supervisor starts it again.
            BallastError: a batch failed.
        """
        with (
            stop_on_signals(stop) as stopping,
            self.start(stream, settings, policy, options) as running,
        ):
            running.wait(stopping)
            if drain:
                running.drain()


class RunningJob:
    """A started job."""

    def __init__(
        self,
        lock: JobLock,
        runtime: JobRuntime,
        stream: DataFrame,
        checkpoint: str,
        options: QueryOptions,
    ) -> None:
        self.runtime, self.options = runtime, options
        self._lock = lock
        self._stopping = threading.Event()
        self._refusal: BallastError | None = None
        self._waited_s = 0.0
        """Seconds for which a drain has waited for a batch that did not end."""
        self._spark = stream.sparkSession
        self.health = JobHealth(_limits(runtime.policy, options), runtime.ledger.clock())
        reporter = JobReporter(
            runtime.settings, runtime.policy.job, runtime.ledger.length_ms, self.health,
            runtime.plan_in_force, runtime.ledger.clock,
        )  # fmt: skip
        self.flusher = Flusher(runtime.ledger, runtime.log_window, reporter.write)
        self._watch = HealthWatch(runtime.policy.job, self.health, self._sample, self._on_state)
        self.query: StreamingQuery = (
            stream.writeStream.queryName(f"ballast_{runtime.policy.job}")
            .foreachBatch(self._on_batch)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{round(options.trigger_s * 1000)} milliseconds")
            .start()
        )
        self.flusher.start()
        self._watch.start()

    def __enter__(self) -> RunningJob:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def is_active(self) -> bool:
        """Whether the job still runs; it ends by itself if a batch fails or it has no executor."""
        return bool(self.query.isActive) and not self.health.must_end(self._now_ms())

    def wait(self, stop: threading.Event) -> None:
        """Waits until ``stop`` is set or the job ends by itself."""
        while self.is_active() and not stop.wait(POLL_S):
            pass

    def drain(self) -> None:
        """Waits until all present input has been processed and committed.

        It gives up if no batch ends for ``drain_limit_s``, or for ``stop_limit_s`` without
        executors; :meth:`stop` then cancels the batch at once.
        """
        draining = _Drain(self.query)
        began_ms = self._now_ms()
        while not draining.is_over(POLL_S):
            now_ms = self._now_ms()
            without_batch_s = self.health.seconds_without_progress(now_ms)
            has_executors = self.health.state.state != NO_EXECUTORS
            limit = self.options.drain_limit_s if has_executors else self.options.stop_limit_s
            if min((now_ms - began_ms) / 1000, without_batch_s) >= limit:
                self._waited_s = without_batch_s
                return
        draining.raise_error()

    def stop(self) -> None:
        """Stops at a batch boundary and writes the remaining windows.

        A batch that does not end within ``stop_limit_s`` is cancelled.

        Raises:
            StateNotShared: a task does not see the state folder that the driver writes.
            JobStalled: the job had no executor, or a batch did not end.
            BallastError: a batch failed.
        """
        self._stopping.set()
        lost = self._lost_error() if self.health.must_end(self._now_ms()) else None
        stalled = self._stop_at_boundary()
        self._watch.finish()
        if stalled is not None and not self._cancel_batch():
            # The batch may still write: the lock stays until this process ends.
            raise stalled
        if not self.flusher.finish():
            log.warning("the last windows were not written; the next start of the job writes them")
        self.runtime.acks.finish()
        self._lock.__exit__(None, None, None)
        for error in (stalled, lost):
            if error is not None:
                raise error
        failure = self.query.exception()
        if failure is not None and _StopRequested.__name__ not in str(failure):
            if self._refusal is not None:
                raise self._refusal
            raise BallastError(f"job {self.runtime.policy.job} failed: {failure}") from failure

    def _stop_at_boundary(self) -> JobStalled | None:
        """Stops the query between two batches; an error if the running batch does not end."""
        began, limit_s = time.monotonic(), self.options.stop_limit_s
        while self.query.isActive:
            if not self.query.status["isTriggerActive"]:
                self.query.stop()
            elif self.health.state.state == NO_EXECUTORS:
                return self._lost_error()
            elif (waited_s := time.monotonic() - began + self._waited_s) >= limit_s:
                return JobStalled(
                    f"job {self.runtime.policy.job} was stopped, and its batch did not end within "
                    f"{waited_s:.0f} s; the batch was cancelled, and the next start of the job "
                    "repeats it"
                )
            else:
                time.sleep(POLL_S / 2)
        return None

    def _lost_error(self) -> JobStalled:
        return JobStalled(
            health_text(self.runtime.policy.job, self.health.state, self.health.limits)
        )

    def _cancel_batch(self) -> bool:
        """Cancels the running batch; returns whether the thread of the query has ended.

        Spark says that a query is not active before its thread has ended, but its call to stop the
        query returns only then.
        """
        cancel = threading.Thread(target=self.query.stop, name="ballast-cancel", daemon=True)
        cancel.start()
        cancel.join(CANCEL_LIMIT_S)
        return not cancel.is_alive()

    def _now_ms(self) -> int:
        return self.runtime.ledger.clock()

    def _sample(self) -> Sample:
        executors = executors_of(self._spark.sparkContext)
        return Sample(self._now_ms(), executors, not self.query.status["isTriggerActive"])

    def _on_state(self, state: HealthState, at_ms: int) -> None:
        if not state.is_measured:
            self.runtime.ledger.lose()
        elif state.state == IDLE:
            self.runtime.ledger.saw_idle(at_ms)

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        if self._stopping.is_set():
            raise _StopRequested(f"batch {batch_id} is left to the next start")
        try:
            self.runtime.on_batch(frame, batch_id)
        except BallastError as error:
            self._refusal = error
            raise
        except Exception as error:
            self._refusal = error_of_task(error)
            raise
        self.health.batch_ended(self._now_ms())


def _limits(policy: JobPolicy, options: QueryOptions) -> HealthLimits:
    stalled_after_s = max(STALLED_AFTER_WINDOWS * policy.window_s, STALLED_AFTER_S)
    return HealthLimits(stalled_after_s, options.end_without_executors_s)


class _Drain:
    """Processes all present input in a thread of its own: Spark's call has no time limit."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._error: Exception | None = None
        self._over = threading.Event()
        threading.Thread(target=self._run, name="ballast-drain", daemon=True).start()

    def is_over(self, wait_s: float) -> bool:
        """Whether all input was processed or the query failed; waits a little for it."""
        return self._over.wait(wait_s)

    def raise_error(self) -> None:
        """Raises the error of the query, if it failed."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            if self._query.isActive:
                self._query.processAllAvailable()
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            self._error = error
        finally:
            self._over.set()


@contextmanager
def stop_on_signals(stop: threading.Event | None = None) -> Iterator[threading.Event]:
    """Gives an event that SIGTERM and SIGINT set while the block runs."""
    event = stop or threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {
        number: signal.signal(number, lambda *_: event.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
