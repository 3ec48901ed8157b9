"""Condense the metrics of a job into the snapshot of a run, once for each run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ballast.contracts.errors import GateFailed
from ballast.contracts.identity import digest
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from ballast.store.snapshots import snapshot_of_run
from expectations.suites import Suite
from spark_jobs.program.run import progress
from spark_jobs.snapshot.run_context import RunContext, SnapshotRequest, SnapshotRun
from spark_jobs.snapshot.run_context_lookup import ensure_used_tables, find_run_context
from spark_jobs.snapshot.take_snapshot import take_snapshot
from spark_jobs.snapshot.validation import Validate
from spark_jobs.warehouse.plan_log import Event, append_event

Session = Callable[[], AbstractContextManager[SparkSession]]


def condense(settings: Settings, request: SnapshotRequest, session: Session) -> Snapshot:
    """The snapshot of the run, taken now unless the run has one.

    Args:
        settings: where the tables are.
        request: which job, for which run, at what time.
        session: opens a Spark session; not called if the run has a snapshot.

    Raises:
        GateFailed: metrics are missing or broken. Bad rows are in ``metrics.rejected`` then, and
            ``plans.log`` has the reason; nothing else is written.
    """
    ensure_used_tables(settings)
    done = snapshot_of_run(settings, request.job, request.run_id)
    if done is not None:
        progress.info("run %s has snapshot %s; nothing to do", request.run_id, done.snapshot_id)
        return done
    try:
        context = find_run_context(settings, request)
        progress.info("period of %d windows up to %s, tables pinned at %s", context.period.windows,
                      context.period.end.isoformat(), context.pins)  # fmt: skip
        validate = _validate_imported_in_background()
        with session() as spark:
            take_snapshot(SnapshotRun(spark, settings, request, context), validate)
    except GateFailed as error:
        append_event(settings, _gate_event(request, str(error)))
        raise
    return _snapshot_in_force(settings, request, context)


def _snapshot_in_force(
    settings: Settings, request: SnapshotRequest, context: RunContext
) -> Snapshot:
    """The run's snapshot as it was written, by this attempt or by another that was first."""
    snapshot = snapshot_of_run(settings, request.job, request.run_id)
    if snapshot is None:
        raise RuntimeError(f"run {request.run_id} has no snapshot after writing one")
    is_own = snapshot.snapshot_id == context.snapshot_id(request)
    progress.info("snapshot %s of %d windows is in force for run %s%s", snapshot.snapshot_id,
                  snapshot.windows, request.run_id,
                  "" if is_own else ", taken by another attempt")  # fmt: skip
    return snapshot


def _gate_event(request: SnapshotRequest, reason: str) -> Event:
    """A failed gate: logged once for a run and a reason, because a retry may fail for another."""
    run_id = request.run_id
    return Event(
        request.job, "gate_failed", run_id, f"condense of run {run_id}", reason,
        unique_by=f"{run_id}:None:None:{digest(reason)}",
    )  # fmt: skip


def _validate_imported_in_background() -> Validate:
    """``expectations.runner.validate``, imported in a thread while Spark starts.

    Both take seconds. The modules that both import are imported above, so that the two threads
    cannot wait for each other.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="import")
    runner: Future[Any] = pool.submit(importlib.import_module, "expectations.runner")
    pool.shutdown(wait=False)

    def validate(frame: DataFrame, suite: Suite, *, count: bool = True) -> Any:
        return runner.result().validate(frame, suite, count=count)

    return validate
