"""Compare what the plan in force promised with what came:
``spark-submit spark_jobs/measure.py --job J --run-id R``.

Loads and traffic come from the windows wholly after the plan was applied, moves, bytes and pause
from what the streaming job measured while moving. No plan, no word from the job or too few
windows is no failure: it is said, and the next run measures.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import JobPolicy, policy_from_json
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from ballast.store.plans import (
    read_acks,
    read_head,
    read_outcomes,
    read_plan,
    read_scaling,
    read_weights,
)
from ballast.store.tables import append_once, ensure_tables, read_rows
from spark_jobs.draft.problem import Row
from spark_jobs.draft.scaling_rows import nodes_under
from spark_jobs.outcome.figures import (
    broken_promise,
    enough_at,
    measure_figures,
    node_figures,
    outcome_rows,
    report,
    usable_windows,
    windows_to_measure,
)
from spark_jobs.outcome.region_figures import region_figures, region_rows, windows_of_region
from spark_jobs.program.arguments import add_as_of_argument, add_run_arguments
from spark_jobs.program.run import progress, run_program, spark_session
from spark_jobs.snapshot.window_selection import TakeUp, WindowSummary
from spark_jobs.warehouse.plan_log import Event, append_event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.outcome.measured_windows import Span

# Statistics periods that are looked through for complete windows, however long the history is.
PERIODS_READ = 2

Sessions = Callable[[], AbstractContextManager["SparkSession"]]


@dataclass(frozen=True)
class Applied:
    """A plan in force that the streaming job has applied."""

    plan: Row
    ack: Row
    policy: JobPolicy
    key_groups: pa.Table
    """Key groups of the plan's snapshot: what they used before it."""
    nodes: pa.Table
    """Nodes as the plan makes them: the promise holds for these capacities and states."""
    scaling: Sequence[Row] = ()
    """Rows of plans.scaling: what each node was promised to carry."""
    weights: Sequence[Row] = ()
    """Rows of plans.weights: what workers of ordered regions were given."""
    connections: Sequence[Row] = ()
    """Rows of snapshots.connections: what they did before the plan."""

    @property
    def staying(self) -> list[str]:
        """Nodes that the promised load distance is over."""
        pairs = zip(self.nodes["node_id"].to_pylist(), self.nodes["state"].to_pylist(), strict=True)
        return [node for node, state in pairs if state == "alive"]

    @property
    def take_up(self) -> TakeUp:
        """The version, and the batch that took it up."""
        return TakeUp(self.ack["version"], self.ack["batch_id"])

    def span(self, as_of: datetime) -> Span:
        """The last periods, from a window before the one in which the plan was applied on.

        That window shows where the version begins, if batch numbers cannot.
        """
        from spark_jobs.outcome.measured_windows import Span

        reach = timedelta(seconds=self.policy.statistics_period_s * PERIODS_READ)
        window = timedelta(seconds=self.policy.window_s)
        begin = max(as_of - reach, self.ack["acked_at"] - 2 * window)
        return Span(self.policy, begin, as_of)


def measure_plan(
    settings: Settings, job: str, run_id: str, sessions: Sessions, as_of: datetime
) -> list[Row]:
    """The outcome of the version in force as this run measures it; empty where it cannot be."""
    applied = find_applied(settings, job)
    if applied is None:
        return []
    rows = _outcomes(settings, applied, run_id)
    if rows:
        progress.info("the run has measured version %d", applied.ack["version"])
    else:
        with sessions() as spark:
            rows = _measure(spark, settings, applied, run_id, as_of)
    for line in report(rows) if rows else []:
        progress.info("%s", line)
    tell_if_broken(settings, applied, rows, run_id)
    return rows


def tell_if_broken(settings: Settings, applied: Applied, rows: Sequence[Row], run_id: str) -> None:
    """Write down, once a version, that it does worse than it promised, and have it told."""
    said = broken_promise(rows, applied.policy.thresholds.broken_promise_pct)
    if said is None:
        return
    job, version = applied.plan["job"], applied.ack["version"]
    # Logged once for each version, however many runs find it.
    event = Event(job, "promise_broken", run_id, f"measure of run {run_id}", said, version,
                  applied.plan["plan_id"], unique_by=str(version))  # fmt: skip
    if append_event(settings, event):
        progress.info("the promise is broken: %s", said)
        write_task_result(notice={"kind": "promise_broken", "text": f"job {job}: {said}"})


def find_applied(settings: Settings, job: str) -> Applied | None:
    """The plan in force if the streaming job has applied it; otherwise says why not."""
    head = read_head(settings, job)
    if head is None:
        progress.info("nothing to measure: job %s has no plan in force", job)
        return None
    acks = read_acks(settings, job, head.version)
    last = acks[-1] if acks else None
    if last is None or last["status"] != "applied":
        progress.info("nothing to measure: %s", _why_not_applied(head.version, last))
        return None
    plan = read_plan(settings, job, head.plan_id)
    where = [("snapshot_id", "=", plan["snapshot_id"])]
    snapshots = read_rows(settings, "snapshots.snapshots", job=job, where=where).to_pylist()
    if not snapshots:
        raise NotFound(
            f"snapshot {plan['snapshot_id']} of plan {head.plan_id} is gone",
            value=plan["snapshot_id"],
            remedy="keep snapshots for as long as their plans are in force",
        )
    policy = policy_from_json(snapshots[0]["policy_json"])
    key_groups = read_rows(settings, "snapshots.key_groups", job=job, where=where)
    nodes = read_rows(settings, "snapshots.nodes", job=job, where=where)
    scaling = read_scaling(settings, job, head.plan_id)
    if scaling:
        nodes = nodes_under(policy, nodes, scaling)
    weights, connections = read_weights(settings, job, head.plan_id), []
    if weights:
        rows = read_rows(settings, "snapshots.connections", job=job, where=where)
        connections = rows.to_pylist()
    return Applied(plan, last, policy, key_groups, nodes, scaling, weights, connections)


def _measure(
    spark: SparkSession, settings: Settings, applied: Applied, run_id: str, as_of: datetime
) -> list[Row]:
    from spark_jobs.outcome.measured_windows import good_rows, measured_windows
    from spark_jobs.snapshot.loads import key_group_loads, traffic_rates

    policy, span = applied.policy, applied.span(as_of)
    tables = ("metrics.key_groups", "metrics.nodes", "metrics.traffic")
    with ThreadPoolExecutor(len(tables)) as pool:
        # Side by side: opening a Delta table is mostly one thread's work in the driver.
        opened = pool.map(lambda table: good_rows(spark, settings, table, span), tables)
        key_groups, nodes, traffic = opened
    # Read twice: to find the windows, and to add up their loads.
    key_groups = key_groups.persist()
    windows = measured_windows(key_groups, nodes, applied.staying)
    usable = usable_windows(policy, windows, applied.take_up)
    progress.info("found %d usable windows", len(usable))
    if len(usable) < windows_to_measure(policy):
        progress.info("%s", _not_enough(applied, usable, as_of))
        return []
    ends = [window.end_at for window in usable]
    loads = key_group_loads(key_groups, ends, policy.window_s).toArrow()
    rates = traffic_rates(traffic, ends, policy.window_s).toArrow()
    measured = measure_figures(policy, applied.key_groups, loads, applied.nodes, rates)
    progress.info("measured")
    by_node = node_figures(applied.scaling, applied.key_groups, loads)
    now = datetime.now(UTC)
    rows = outcome_rows(
        applied.plan, applied.ack, measured, usable, policy.window_s, run_id, now, by_node
    )
    if applied.weights:
        rows += _region_rows(spark, settings, applied, span, run_id, now)
    _write(settings, rows)
    return _outcomes(settings, applied, run_id)


def _region_rows(
    spark: SparkSession,
    settings: Settings,
    applied: Applied,
    span: Span,
    run_id: str,
    now: datetime,
) -> list[Row]:
    """What the weights of each region came to, since the region took them up."""
    from spark_jobs.outcome.measured_windows import good_rows

    policy, version, job = applied.policy, applied.ack["version"], applied.plan["job"]
    good = good_rows(spark, settings, "metrics.connections", span).toArrow().to_pylist()
    common = {"job": job, "version": version, "plan_id": applied.plan["plan_id"],
              "run_id": run_id, "measured_at": now}  # fmt: skip
    rows: list[Row] = []
    for region_id in sorted({row["region_id"] for row in applied.weights}):
        acks = read_acks(settings, job, version, region_id)
        if not acks or acks[-1]["status"] != "applied":
            why = acks[-1]["reason"] if acks else "it has not answered yet"
            progress.info("region %s does not run under version %d: %s", region_id, version, why)
            continue
        since = acks[0]["acked_at"]
        own = [
            row
            for row in good
            if row["plan_version"] == version and row["window_start_at"] >= since
        ]
        after = windows_of_region(own, region_id)
        after = dict(list(after.items())[-policy.windows_per_period :])
        if len(after) < windows_to_measure(policy):
            progress.info("region %s: %d of %d windows under version %d", region_id, len(after),
                          windows_to_measure(policy), version)  # fmt: skip
            continue
        weights = [row for row in applied.weights if row["region_id"] == region_id]
        before = windows_of_region(applied.connections, region_id)
        figures = region_figures(region_id, weights, before, after, policy.window_s)
        rows += region_rows(common, figures, list(after), policy.window_s)
    return rows


def _write(settings: Settings, rows: Sequence[Row]) -> None:
    """Write the figures down, once a version and run."""
    ensure_tables(settings, ["plans.outcomes"])
    first = rows[0]
    app_id = f"plans.outcomes:{first['job']}:{first['version']}:{first['run_id']}"
    append_once(settings, "plans.outcomes", rows, app_id=app_id, app_version=1)
    progress.info("wrote %d figures", len(rows))


def _outcomes(settings: Settings, applied: Applied, run_id: str) -> list[Row]:
    rows = read_outcomes(settings, applied.plan["job"], applied.ack["version"])
    return [row for row in rows if row["run_id"] == run_id]


def _why_not_applied(version: int, last: Row | None) -> str:
    """A job that lost its folder says everything again: its last word counts."""
    if last is not None and last["status"] == "refused":
        return f"the streaming job refused version {version}: {last['reason']}"
    if last is not None:
        return f"the streaming job accepted version {version} and has not applied it yet"
    return f"the streaming job has not answered to version {version} yet"


def _not_enough(applied: Applied, usable: Sequence[WindowSummary], as_of: datetime) -> str:
    at = enough_at(applied.policy, usable, applied.ack["acked_at"], as_of)
    return (
        f"not enough windows yet to measure version {applied.ack['version']}: {len(usable)} of "
        f"{windows_to_measure(applied.policy)}; enough at about {at:%Y-%m-%d %H:%M:%S} UTC"
    )


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``measure``."""
    add_run_arguments(parser)
    add_as_of_argument(parser)


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``measure`` as the command line asks for it."""
    measure_plan(
        settings, arguments.job, arguments.run_id,
        lambda: spark_session(settings, f"ballast measure {arguments.job}"),
        arguments.as_of or datetime.now(UTC),
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("measure", "Compare a plan's promise with what came.", add_arguments, body,
                       argv)  # fmt: skip


if __name__ == "__main__":
    exit_now(main())
