"""Measure the plan in force: select windows, average them, compare with the promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Outcome, Promise
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from spark_jobs.outcome.applied_plan import AppliedPlan
from spark_jobs.outcome.figures import MeasuredLoads, measure_figures, node_figures, plan_figures
from spark_jobs.outcome.measured_windows import (
    measurable_at,
    measured_windows,
    usable_windows,
    windows_to_measure,
)
from spark_jobs.outcome.outcome_tables import (
    read_applied_plan,
    read_connections,
    read_good_rows,
    read_region_take_up,
    read_run_outcomes,
    write_outcomes,
)
from spark_jobs.outcome.outcomes import (
    MeasuredPeriod,
    Measurement,
    broken_promise,
    outcomes_of,
    report,
)
from spark_jobs.outcome.region_figures import region_figures, region_windows
from spark_jobs.program.run import progress
from spark_jobs.snapshot.loads import key_group_loads, traffic_rates
from spark_jobs.snapshot.window_selection import WindowSummary
from spark_jobs.warehouse.plan_log import Event, append_event

Session = Callable[[], AbstractContextManager[SparkSession]]
TABLES_READ = ("metrics.key_groups", "metrics.nodes", "metrics.traffic")


@dataclass(frozen=True)
class MeasureRun:
    """A run with its Spark session, and the time that is now."""

    spark: SparkSession
    settings: Settings
    run_id: str
    as_of: datetime


def measure_plan(
    settings: Settings, job: str, run_id: str, session: Session, as_of: datetime
) -> list[Outcome]:
    """The outcomes of the version in force as this run measures it; empty if it cannot.

    Args:
        settings: where the tables are.
        job: name of the streaming job.
        run_id: the run; it measures a version once.
        session: opens a Spark session; not called if there is nothing to measure.
        as_of: the time that is now.
    """
    applied = read_applied_plan(settings, job)
    if applied is None:
        return []
    outcomes = read_run_outcomes(settings, applied, run_id)
    if outcomes:
        progress.info("the run has measured version %d", applied.ack.version)
    else:
        with session() as spark:
            run = MeasureRun(spark, settings, run_id, as_of)
            outcomes = measure_applied_plan(run, applied)
        if not outcomes:
            return []
        write_outcomes(settings, outcomes)
        outcomes = read_run_outcomes(settings, applied, run_id)
    for line in report(outcomes):
        progress.info("%s", line)
    report_broken_promise(settings, applied.policy, outcomes, applied.promises)
    return outcomes


def report_broken_promise(
    settings: Settings,
    policy: JobPolicy,
    outcomes: Sequence[Outcome],
    promises: Mapping[str, Promise],
) -> None:
    """Log and notify, once for each version, that a plan does worse than it promised."""
    message = broken_promise(outcomes, promises, policy.thresholds.broken_promise_pct)
    if message is None:
        return
    first = outcomes[0]
    # Once for each version, however many runs find it.
    event = Event(
        first.job, "promise_broken", first.run_id, f"measure of run {first.run_id}", message,
        first.version, first.plan_id, unique_by=str(first.version),
    )  # fmt: skip
    if append_event(settings, event):
        progress.info("the promise is broken: %s", message)
        notice = {"kind": "promise_broken", "text": f"job {first.job}: {message}"}
        write_task_result(notice=notice)


def measure_applied_plan(run: MeasureRun, applied: AppliedPlan) -> list[Outcome]:
    """The outcomes of a plan; empty, with a progress line, while there are too few windows."""
    policy, span = applied.policy, applied.span(run.as_of)
    with ThreadPoolExecutor(len(TABLES_READ)) as pool:
        # In parallel: opening a Delta table is mostly work of one thread in the driver.
        opened = pool.map(
            lambda table: read_good_rows(run.spark, run.settings, table, span), TABLES_READ
        )
        key_groups, nodes, traffic = opened
    # Read twice: to find the windows, and to sum up their loads.
    key_groups = key_groups.persist()
    windows = measured_windows(key_groups, nodes, applied.staying)
    usable = usable_windows(policy, windows, applied.take_up)
    progress.info("found %d usable windows", len(usable))
    if len(usable) < windows_to_measure(policy):
        progress.info("%s", _too_few_windows(applied, usable, run.as_of))
        return []
    ends = [window.end_at for window in usable]
    loads = MeasuredLoads(
        key_group_loads(key_groups, ends, policy.window_s).toArrow(),
        traffic_rates(traffic, ends, policy.window_s).toArrow(),
    )
    measured = measure_figures(policy, applied.key_groups, applied.nodes, loads)
    progress.info("measured")
    figures = plan_figures(applied.plan, applied.ack, measured)
    figures += node_figures(
        applied.scaling, applied.promises.values(), applied.key_groups, loads.key_groups
    )
    measurement = _measurement(run, applied)
    period = MeasuredPeriod.of_windows(ends, policy.window_s)
    regions = sorted({row.region_id for row in applied.weights})
    return outcomes_of(measurement, period, figures, applied.promises) + [
        outcome
        for region_id in regions
        for outcome in _region_outcomes(run, applied, measurement, region_id)
    ]


def _measurement(run: MeasureRun, applied: AppliedPlan) -> Measurement:
    plan = applied.plan
    now = datetime.now(UTC)
    return Measurement(plan.job, applied.ack.version, plan.plan_id, run.run_id, now)


def _region_outcomes(
    run: MeasureRun, applied: AppliedPlan, measurement: Measurement, region_id: str
) -> list[Outcome]:
    """The outcomes of a region's weights; empty, with a progress line, if not measurable."""
    policy, version = applied.policy, measurement.version
    first, last = read_region_take_up(run.settings, measurement.job, version, region_id)
    if first is None or last is None or last.status != "applied":
        why = last.reason if last else "it has not answered yet"
        progress.info("region %s does not run under version %d: %s", region_id, version, why)
        return []
    connections = read_connections(run.spark, run.settings, applied.span(run.as_of), first)
    windows = region_windows(connections, region_id)
    after = dict(list(windows.items())[-policy.windows_per_period :])
    if len(after) < windows_to_measure(policy):
        progress.info("region %s: %d of %d windows under version %d", region_id, len(after),
                      windows_to_measure(policy), version)  # fmt: skip
        return []
    weights = [row for row in applied.weights if row.region_id == region_id]
    before = region_windows(applied.connections, region_id)
    figures = region_figures(region_id, weights, before, after, policy.window_s)
    period = MeasuredPeriod.of_windows(list(after), policy.window_s)
    return outcomes_of(measurement, period, figures, applied.promises)


def _too_few_windows(applied: AppliedPlan, usable: Sequence[WindowSummary], as_of: datetime) -> str:
    at = measurable_at(applied.policy, usable, applied.ack.acked_at, as_of)
    return (
        f"not enough windows yet to measure version {applied.ack.version}: {len(usable)} of "
        f"{windows_to_measure(applied.policy)}; enough at about {at:%Y-%m-%d %H:%M:%S} UTC"
    )
