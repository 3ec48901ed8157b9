"""The snapshot of a run, once for each run: validate metrics, select windows, average, write."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ballast.contracts.errors import GateFailed
from ballast.contracts.identity import digest
from ballast.contracts.policy import policy_from_json
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from ballast.store.snapshots import snapshot_of_run
from expectations.suites import Suite
from solvers.noise.load_noise import resource_noise_of, snapshot_noise_row
from spark_jobs.program.run import progress
from spark_jobs.snapshot.connections import (
    SILENCE_READ,
    newest_connections,
    reporting_workers,
    silence_messages,
    silent_regions,
)
from spark_jobs.snapshot.incomplete_period import (
    IncompletePeriod,
    expected_groups,
    missing_groups,
)
from spark_jobs.snapshot.key_pair_rates import key_pair_rates
from spark_jobs.snapshot.load_noise import (
    EarlierSnapshot,
    key_group_loads_with_noise,
    traffic_rates_with_noise,
)
from spark_jobs.snapshot.load_series import load_series, series_span, source_rates
from spark_jobs.snapshot.metric_tables import (
    CONNECTIONS,
    KEY_GROUPS,
    KEY_PAIRS,
    NODES,
    SOURCES,
    TRAFFIC,
)
from spark_jobs.snapshot.node_states import NodeStatus, node_activity, node_states, nodes_since
from spark_jobs.snapshot.run_context import RunContext, SnapshotRequest, SnapshotRun
from spark_jobs.snapshot.run_context_lookup import ensure_used_tables, find_run_context
from spark_jobs.snapshot.snapshot_tables import (
    MetricRows,
    read_last_connection_window,
    read_metrics,
    read_planned_placement,
    read_previous_key_groups,
    read_previous_nodes,
    read_previous_noise,
    record_frame,
    write_details,
    write_snapshot,
)
from spark_jobs.snapshot.stranded_key_groups import (
    KnownLoads,
    last_known_loads,
    last_known_since,
    silent_groups,
    stranded_loads,
)
from spark_jobs.snapshot.validate_and_reject import (
    Validate,
    ValidatedMetrics,
    is_good,
    require_good_details,
    validate_metrics,
    with_reasons,
)
from spark_jobs.snapshot.window_rows import GROUP, without_groups
from spark_jobs.snapshot.window_selection import period_windows, select_windows, windows_needed
from spark_jobs.warehouse.plan_log import Event, append_event

Session = Callable[[], AbstractContextManager[SparkSession]]


@dataclass(frozen=True)
class _ReportingKeyGroups:
    """The good rows of key groups that still report, and the key groups that do not."""

    good: DataFrame
    """Good rows of the period, without those of stranded key groups."""
    stranded: DataFrame | None
    """Last known loads of key groups on dead nodes; None without any."""
    of_policy: int
    """Number of key groups of the policy."""

    @cached_property
    def expected(self) -> int:
        """Number of key groups that report in a complete window."""
        return self.of_policy - (self.stranded.count() if self.stranded is not None else 0)

    def with_stranded(self, loads: DataFrame) -> DataFrame:
        """The loads of all key groups; nothing is known of the noise of stranded ones."""
        if self.stranded is None:
            return loads
        return loads.unionByName(self.stranded, allowMissingColumns=True)


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
    """``expectations.run_suite.validate``, imported in a thread while Spark starts.

    Both take seconds. The modules that both import are imported above, so that the two threads
    cannot wait for each other.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="import")
    runner: Future[Any] = pool.submit(importlib.import_module, "expectations.run_suite")
    pool.shutdown(wait=False)

    def validate(frame: DataFrame, suite: Suite, *, count: bool = True) -> Any:
        return runner.result().validate(frame, suite, count=count)

    return validate


def take_snapshot(run: SnapshotRun, validate: Validate) -> None:
    """Take the snapshot of a run and write it.

    Raises:
        GateFailed: metrics are missing or broken; bad rows are in ``metrics.rejected`` then.
    """
    metrics = validate_metrics(run, _read_tables(run), validate)
    states = _node_states(run, metrics)
    groups = _reporting_key_groups(run, metrics, states)
    windows = _usable_windows(run, groups, states)
    details = _details(run, metrics, states, groups, windows)
    require_good_details(details, validate)
    write_details(run, details)
    write_snapshot(run, windows=len(windows), rejected_rows=metrics.rejected_rows)
    progress.info("wrote the snapshot")


def _read_tables(run: SnapshotRun) -> list[MetricRows]:
    """The rows of every metrics table that is pinned."""
    pins, start = run.context.pins, run.context.period.start
    tables = [
        (KEY_GROUPS, pins.key_groups, start),
        (NODES, pins.nodes, nodes_since(run.policy, run.context.period)),
        (TRAFFIC, pins.traffic, start),
        (KEY_PAIRS, pins.key_pairs, start),
        (SOURCES, pins.sources, start),
        (CONNECTIONS, pins.connections, start),
    ]
    pinned = [(name, pin, since) for name, pin, since in tables if pin is not None]
    with ThreadPoolExecutor(len(pinned)) as pool:
        # In parallel: opening a Delta table is mostly work of one thread in the driver.
        rows = list(pool.map(lambda table: read_metrics(run, *table), pinned))
    progress.info("opened the tables of metrics")
    return rows


def _node_states(run: SnapshotRun, metrics: ValidatedMetrics) -> list[NodeStatus]:
    nodes, context = metrics.tables[NODES], run.context
    states = node_states(
        run.policy,
        context.period,
        node_activity(nodes.good, nodes.rows, context.period),
        {node.node_id: node.last_seen_at for node in read_previous_nodes(run)},
        context.in_use(run.policy),
        context.added,
    )
    progress.info("nodes: %s", dict(Counter(state.state for state in states)))
    return states


def _reporting_key_groups(
    run: SnapshotRun, metrics: ValidatedMetrics, states: Sequence[NodeStatus]
) -> _ReportingKeyGroups:
    dead = [state.node.id for state in states if state.state == "dead"]
    stranded = _stranded(run, metrics, dead) if dead else None
    total = sum(operator.key_groups for operator in run.policy.operators)
    good = without_groups(metrics.good(KEY_GROUPS), stranded)
    return _ReportingKeyGroups(good, stranded, total)


def _stranded(run: SnapshotRun, metrics: ValidatedMetrics, dead: Sequence[str]) -> DataFrame:
    """Last known loads of the key groups that fell silent on dead nodes."""
    policy, context = run.policy, run.context
    since = last_known_since(context.period, context.previous)
    rows = _good_key_groups(run, since)
    upto = rows.where(rows.window_end_at <= context.period.end)
    expected = expected_groups(run.spark, policy)
    silent = silent_groups(expected, metrics.good(KEY_GROUPS), context.period)
    snapshot = read_previous_key_groups(run)
    known = KnownLoads(
        last_known_loads(upto.join(silent, list(GROUP), "left_semi"), policy),
        None if snapshot is None else snapshot.join(silent, list(GROUP), "left_semi"),
        read_planned_placement(run),
    )
    stranded = stranded_loads(known, dead).persist()
    progress.info("%d key groups stranded on dead nodes %s", stranded.count(), ", ".join(dead))
    return stranded


def _good_key_groups(run: SnapshotRun, since: datetime) -> DataFrame:
    """Good rows of key groups from before the period on."""
    rows = read_metrics(run, KEY_GROUPS, run.context.pins.key_groups, since)
    return with_reasons(rows.frame, rows.checked).where(is_good())


def _usable_windows(
    run: SnapshotRun, groups: _ReportingKeyGroups, states: Sequence[NodeStatus]
) -> list[datetime]:
    """Ends of the windows that the snapshot averages; raises if there are too few."""
    policy, context = run.policy, run.context
    windows = period_windows(groups.good, context.period, states)
    selected = select_windows(windows, groups.expected, context.take_up)
    progress.info(
        "%d of %d windows complete, %d of them wholly under version %d",
        len(selected.complete), len(windows), len(selected.usable), context.take_up.version,
    )  # fmt: skip
    if len(selected.usable) >= windows_needed(policy, policy.thresholds.complete_windows_share):
        return [window.end_at for window in selected.usable]
    partial = [w.end_at for w in windows if 0 < w.key_groups < groups.expected]
    expected = without_groups(expected_groups(run.spark, policy), groups.stranded)
    missing = missing_groups(expected, groups.good, partial)
    version = context.take_up.version
    raise IncompletePeriod(
        policy, context.period, version, windows, selected, missing, states
    ).error()


def _details(
    run: SnapshotRun,
    metrics: ValidatedMetrics,
    states: Sequence[NodeStatus],
    groups: _ReportingKeyGroups,
    windows: Sequence[datetime],
) -> dict[str, DataFrame]:
    """The snapshot's rows by table."""
    window_s = run.policy.window_s
    nodes = [state.record(run.request.job, run.snapshot_id) for state in states]
    earlier = _earlier_snapshot(run, windows)
    loads = key_group_loads_with_noise(groups.good, windows, window_s, earlier)
    for resource in loads.resources:
        progress.info("noise of %s: %s, %s", resource.resource, resource.status, resource.reason)
    noise = [
        snapshot_noise_row(resource, run.request.job, run.snapshot_id)
        for resource in loads.resources
    ]
    details = {
        "snapshots.key_groups": groups.with_stranded(loads.rows),
        "snapshots.nodes": record_frame(run.spark, nodes),
        "snapshots.traffic": traffic_rates_with_noise(metrics.good(TRAFFIC), windows, window_s),
        "snapshots.noise": record_frame(run.spark, noise),
    }
    if KEY_PAIRS in metrics.tables:
        good = metrics.good(KEY_PAIRS)
        details["snapshots.key_pairs"] = key_pair_rates(good, windows, window_s)
    if CONNECTIONS in metrics.tables:
        details["snapshots.connections"] = _connections(run, metrics.good(CONNECTIONS))
    if SOURCES in metrics.tables:
        details["snapshots.sources"] = source_rates(metrics.good(SOURCES), windows, window_s)
    if run.policy.has_load_series:
        details["snapshots.load_series"] = _load_series(run, groups)
    return details


def _earlier_snapshot(run: SnapshotRun, windows: Sequence[datetime]) -> EarlierSnapshot | None:
    """The snapshot before, whose noise counts as well; None if it has none.

    What loads vary by from window to window depends on the length of the windows. After a change
    of it the estimate starts anew.
    """
    noise, rows = read_previous_noise(run), read_previous_key_groups(run)
    previous = run.context.previous
    if not noise or rows is None or previous is None:
        return None
    window_s = policy_from_json(previous.policy_json).window_s
    if window_s != run.policy.window_s:
        progress.info("the noise is estimated anew: windows of %g s were %g s in snapshot %s",
                      run.policy.window_s, window_s, previous.snapshot_id)  # fmt: skip
        return None
    start = min(windows) - timedelta(seconds=run.policy.window_s)
    return EarlierSnapshot(
        rows,
        {row.resource: resource_noise_of(row) for row in noise},
        is_apart=previous.period_end_at <= start,
    )


def _load_series(run: SnapshotRun, groups: _ReportingKeyGroups) -> DataFrame:
    """Loads of key groups back to the last round of scaling, or of the period without scaling."""
    period = run.context.period
    span = series_span(run.policy, period, run.context.previous)
    good = groups.good
    if span.since < period.start:
        good = without_groups(_good_key_groups(run, span.since), groups.stranded)
    return load_series(good, groups.expected, span)


def _connections(run: SnapshotRun, good: DataFrame) -> DataFrame:
    """The newest windows of connections; reports the regions that are silent."""
    newest = newest_connections(good, run.policy, run.context.period)
    reporting = reporting_workers(newest)
    since = run.context.period.start - SILENCE_READ
    last_windows = {
        region.id: read_last_connection_window(run, region.id, since)
        for region in silent_regions(run.policy, reporting)
    }
    for message in silence_messages(run.policy, reporting, last_windows):
        progress.info("%s", message)
    return newest
