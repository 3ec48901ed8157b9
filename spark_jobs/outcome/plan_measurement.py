"""Measure the plan in force: select windows, average them, compare with the promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from ballast.contracts.engine import CAPABILITIES
from ballast.contracts.fault_points import fault_point
from ballast.contracts.log_events import PLANNING_STOPPED, PROMISE_BROKEN
from ballast.contracts.planning_stop import PlanningState
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Outcome, Promise
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import Notice, write_task_notices, write_task_result
from ballast.store.plans import read_log
from spark_jobs.outcome.figures import MeasuredLoads, measure_figures, node_figures, plan_figures
from spark_jobs.outcome.likely_reason import likely_reason
from spark_jobs.outcome.outcome_tables import (
    AppliedPlan,
    read_applied_plan,
    read_good_rows,
    read_measured_connections,
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
from spark_jobs.outcome.planning_events import NO_CAUSE, PlanningLog, ResumeRequest
from spark_jobs.outcome.region_figures import region_figures, region_windows
from spark_jobs.outcome.size_figures import size_figures, without_moves
from spark_jobs.program.run import progress
from spark_jobs.snapshot.load_noise import key_group_loads_with_noise
from spark_jobs.snapshot.loads import key_group_loads, traffic_rates
from spark_jobs.snapshot.window_selection import (
    WindowSummary,
    busy_windows_to_measure,
    measurable_at,
    measured_windows,
    usable_windows,
    windows_to_measure,
)
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
    settings: Settings,
    job: str,
    run_id: str,
    session: Session,
    as_of: datetime,
    resume: ResumeRequest | None = None,
) -> list[Outcome]:
    """The outcomes of the version in force as this run measures it; empty if it cannot.

    Also logs and notifies if the job stops planning by itself or goes on (ADR 60).

    Args:
        settings: where the tables are.
        job: name of the streaming job.
        run_id: the run; it measures a version once.
        session: opens a Spark session; not called if there is nothing to measure.
        as_of: the time that is now.
        resume: set if a person lets the job plan again.
    """
    planning = PlanningLog(settings, job, run_id)
    if resume is not None:
        planning.resume(resume)
    applied = read_applied_plan(settings, job)
    outcomes: list[Outcome] = []
    notices: list[Notice] = []
    if applied is None:
        state = planning.update()
    else:
        outcomes, state = _measure_once(planning, applied, session, as_of)
        notices = _report(settings, applied, outcomes)
    write_task_notices(*notices, *planning.notices())
    if state.is_stopped:
        progress.info("the job makes no plan by itself: %s", state.reason)
        write_task_result(planning=PLANNING_STOPPED)
    return outcomes


def _measure_once(
    planning: PlanningLog, applied: AppliedPlan, session: Session, as_of: datetime
) -> tuple[list[Outcome], PlanningState]:
    """Measure, write the outcomes and log the planning state that follows from them.

    An earlier attempt may have written the outcomes. Only if it was killed before it logged that
    planning stopped, the loads are read once more.
    """
    settings, run_id = planning.settings, planning.run_id

    def cause_in_new_session(state: PlanningState) -> str:
        with session() as spark:
            return cause_of(MeasureRun(spark, settings, run_id, as_of), applied, state)

    outcomes = read_run_outcomes(settings, applied, run_id)
    if outcomes:
        progress.info("the run has measured version %d", applied.ack.version)
        return outcomes, planning.update(cause_in_new_session)
    with session() as spark:
        run = MeasureRun(spark, settings, run_id, as_of)
        outcomes = measure_applied_plan(run, applied)
        if outcomes:
            write_outcomes(settings, outcomes)
            fault_point("measure.after_outcomes")
            outcomes = read_run_outcomes(settings, applied, run_id)
        return outcomes, planning.update(partial(cause_of, run, applied))


def _report(settings: Settings, applied: AppliedPlan, outcomes: Sequence[Outcome]) -> list[Notice]:
    """Report the outcomes, if there are any; returns the notices of them."""
    if not outcomes:
        return []
    for line in report(outcomes):
        progress.info("%s", line)
    return report_broken_promise(settings, applied.policy, outcomes, applied.promises)


def report_broken_promise(
    settings: Settings,
    policy: JobPolicy,
    outcomes: Sequence[Outcome],
    promises: Mapping[str, Promise],
) -> list[Notice]:
    """Log, once for each version, that a plan does worse than it promised.

    Returns:
        The notice, if this run logged the event, also in an earlier attempt: that may have been
        killed before its notice was sent.
    """
    message = broken_promise(outcomes, promises, policy.thresholds.broken_promise_pct)
    if message is None:
        return []
    first = outcomes[0]
    # Once for each version, however many runs find it.
    event = Event(
        first.job, PROMISE_BROKEN, first.run_id, f"measure of run {first.run_id}", message,
        first.version, first.plan_id, unique_by=str(first.version),
    )  # fmt: skip
    append_event(settings, event)
    own = [
        entry
        for entry in read_log(settings, first.job)
        if (entry.event, entry.version, entry.run_id)
        == (PROMISE_BROKEN, first.version, first.run_id)
    ]
    if own:
        progress.info("the promise is broken: %s", message)
    return [Notice(PROMISE_BROKEN, f"job {first.job}: {entry.reason}") for entry in own]


def cause_of(run: MeasureRun, applied: AppliedPlan, state: PlanningState) -> str:
    """The most likely reason why planning stopped, from the loads under the plan in force."""
    newest = state.broken[-1]
    period = read_measured_period(run, applied)
    if newest.version != applied.ack.version or period is None:
        return NO_CAUSE
    found = key_group_loads_with_noise(period.key_groups, period.ends, applied.policy.window_s)
    return likely_reason(newest, applied.key_groups, found.rows.toArrow()).text


@dataclass(frozen=True)
class MeasuredPeriodRows:
    """Good rows since a plan was applied, and the ends of the windows that count."""

    key_groups: DataFrame
    traffic: DataFrame
    ends: Sequence[datetime]


def read_measured_period(run: MeasureRun, applied: AppliedPlan) -> MeasuredPeriodRows | None:
    """The period that a plan is measured over; None, with a progress line, if it is too short or
    has too little load."""
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
        return None
    if is_without_load(policy, usable):
        progress.info("%s", _no_load_text(applied, usable))
        return None
    return MeasuredPeriodRows(key_groups, traffic, [window.end_at for window in usable])


def measure_applied_plan(run: MeasureRun, applied: AppliedPlan) -> list[Outcome]:
    """The outcomes of a plan; empty, with a progress line, while there are too few windows."""
    policy, rows = applied.policy, read_measured_period(run, applied)
    if rows is None:
        return []
    loads = MeasuredLoads(
        key_group_loads(rows.key_groups, rows.ends, policy.window_s).toArrow(),
        traffic_rates(rows.traffic, rows.ends, policy.window_s).toArrow(),
    )
    measured = measure_figures(policy, applied.key_groups, applied.nodes, loads)
    progress.info("measured")
    figures = plan_figures(applied.plan, applied.ack, measured)
    if CAPABILITIES[policy.engine.kind].placement:
        figures += node_figures(
            applied.scaling, applied.promises.values(), applied.key_groups, loads.key_groups
        )
    else:
        figures = without_moves(figures) + size_figures(applied.scaling, loads.key_groups)
    measurement = _measurement(run, applied)
    period = MeasuredPeriod.of_windows(rows.ends, policy.window_s)
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
    connections = read_measured_connections(run.spark, run.settings, applied.span(run.as_of), first)
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


def is_without_load(policy: JobPolicy, usable: Sequence[WindowSummary]) -> bool:
    """Whether too few windows have a load: no load is level, and says nothing about a promise."""
    return sum(window.has_load for window in usable) < busy_windows_to_measure(policy)


def _no_load_text(applied: AppliedPlan, usable: Sequence[WindowSummary]) -> str:
    busy = sum(window.has_load for window in usable)
    return (
        f"too little load to measure version {applied.ack.version}: {busy} of {len(usable)} "
        f"windows have a load, {busy_windows_to_measure(applied.policy)} are needed; a later run "
        "measures it"
    )


def _too_few_windows(applied: AppliedPlan, usable: Sequence[WindowSummary], as_of: datetime) -> str:
    at = measurable_at(applied.policy, usable, applied.ack.acked_at, as_of)
    return (
        f"not enough windows yet to measure version {applied.ack.version}: {len(usable)} of "
        f"{windows_to_measure(applied.policy)}; enough at about {at:%Y-%m-%d %H:%M:%S} UTC"
    )
