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

from ballast.contracts.errors import BallastError
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings, check_job_name
from ballast.store.table_schema import ensure_tables
from ballast.streaming.batch_runner import Backlog, JobRuntime
from ballast.streaming.job_lock import JobLock
from ballast.streaming.job_state import job_folder
from ballast.streaming.metrics_ledger import Flusher
from ballast.streaming.operators import Operator, build_topology

log = logging.getLogger("ballast.streaming")
JOB_TABLES = (
    "metrics.key_groups", "metrics.traffic", "metrics.key_pairs", "metrics.sources",
    "metrics.nodes", "plans.acks",
)  # fmt: skip
POLL_S = 0.1


class _StopRequested(Exception):
    """Raised at the start of a batch when the job stops; the next start runs the batch."""


@dataclass(frozen=True)
class QueryOptions:
    """How Spark runs the job's query."""

    trigger_s: float = 1.0
    """Seconds between the starts of two batches, at least."""
    checkpoint: Path | str | None = None
    """Folder of Spark's checkpoint; None is the job's own folder."""


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
        """
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
            return RunningJob(lock, runtime, stream, checkpoint, options.trigger_s)
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
        trigger_s: float,
    ) -> None:
        self.runtime = runtime
        self._lock = lock
        self._stopping = threading.Event()
        self.flusher = Flusher(runtime.ledger, runtime.metrics.log_window)
        self.query: StreamingQuery = (
            stream.writeStream.queryName(f"ballast_{runtime.policy.job}")
            .foreachBatch(self._on_batch)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds")
            .start()
        )
        self.flusher.start()

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
        """Whether the job still runs; it ends by itself only if a batch fails."""
        return bool(self.query.isActive)

    def wait(self, stop: threading.Event) -> None:
        """Waits until ``stop`` is set or the job ends by itself."""
        while self.is_active() and not stop.wait(POLL_S):
            pass

    def drain(self) -> None:
        """Waits until all present input has been processed and committed."""
        if self.query.isActive:
            self.query.processAllAvailable()

    def stop(self) -> None:
        """Stops at a batch boundary and writes the remaining windows.

        Raises:
            BallastError: a batch failed.
        """
        self._stopping.set()
        while self.query.isActive:
            if not self.query.status["isTriggerActive"]:
                self.query.stop()
            else:
                time.sleep(POLL_S / 2)
        if not self.flusher.finish():
            log.warning("the last windows were not written; the next start of the job writes them")
        self._lock.__exit__(None, None, None)
        failure = self.query.exception()
        if failure is not None and _StopRequested.__name__ not in str(failure):
            raise BallastError(f"job {self.runtime.policy.job} failed: {failure}") from failure

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        if self._stopping.is_set():
            raise _StopRequested(f"batch {batch_id} is left to the next start")
        self.runtime.on_batch(frame, batch_id)


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
