"""The plan in force, its measured rows and its outcomes: the tables of ``measure``.

This is the one module of the package that reads and writes tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import JobPolicy, policy_from_json
from ballast.contracts.records import (
    Ack,
    ConnectionWindow,
    Draft,
    Outcome,
    Promise,
    ScalingRow,
    WorkerWeight,
)
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.plans import (
    read_acks,
    read_head,
    read_outcomes,
    read_plan,
    read_promises,
    read_scaling,
    read_weights,
)
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append_once, read_rows
from expectations.row_rules import checked_table
from spark_jobs.draft.scaling_rows import nodes_under
from spark_jobs.program.run import progress
from spark_jobs.snapshot.snapshot_tables import with_facts
from spark_jobs.snapshot.validate_and_reject import is_good, with_reasons
from spark_jobs.snapshot.window_selection import TakeUp
from spark_jobs.warehouse.spark_tables import read_table

PERIODS_READ = 2
"""Statistics periods that are read to find complete windows, however long the history is."""


@dataclass(frozen=True)
class MeasuredSpan:
    """The windows that are read: those of one job between two times, of all versions."""

    policy: JobPolicy
    begin: datetime
    end: datetime


@dataclass(frozen=True)
class AppliedPlan:
    """A plan in force that the streaming job has applied."""

    plan: Draft
    ack: Ack
    policy: JobPolicy
    key_groups: pa.Table
    """Key groups of the plan's snapshot: their loads before the plan."""
    nodes: pa.Table
    """Nodes under the plan: the promise holds for these capacities and states."""
    scaling: Sequence[ScalingRow] = ()
    """The load that the plan promises for each node."""
    weights: Sequence[WorkerWeight] = ()
    """Weights of workers of ordered regions under the plan."""
    connections: Sequence[ConnectionWindow] = ()
    """Connections of the plan's snapshot: their figures before the plan."""
    promises: Mapping[str, Promise] = field(default_factory=dict)
    """What the plan promises by figure; empty for a plan of an earlier version."""

    @property
    def staying(self) -> list[str]:
        """Nodes that the promised load distance is computed over."""
        pairs = zip(self.nodes["node_id"].to_pylist(), self.nodes["state"].to_pylist(), strict=True)
        return [node for node, state in pairs if state == "alive"]

    @property
    def take_up(self) -> TakeUp:
        """The version, and the batch that took it up."""
        return TakeUp(self.ack.version, self.ack.batch_id)

    def span(self, as_of: datetime) -> MeasuredSpan:
        """The last periods, beginning one window before the one in which the plan was applied.

        That window shows where the version begins if batch numbers cannot.
        """
        reach = timedelta(seconds=self.policy.statistics_period_s * PERIODS_READ)
        window = timedelta(seconds=self.policy.window_s)
        begin = max(as_of - reach, self.ack.acked_at - 2 * window)
        return MeasuredSpan(self.policy, begin, as_of)


def not_applied_reason(version: int, last: Ack | None) -> str:
    """Why a version cannot be measured; ``last`` is the job's last acknowledgement of it.

    A job that lost its folder acknowledges again, so the last acknowledgement counts.
    """
    if last is None:
        return f"the streaming job has not answered to version {version} yet"
    if last.status == "refused":
        return f"the streaming job refused version {version}: {last.reason}"
    if last.is_unfinished:
        return f"the streaming job has made {last.progress_text} of version {version}"
    return f"the streaming job accepted version {version} and has not applied it yet"


def read_applied_plan(settings: Settings, job: str) -> AppliedPlan | None:
    """The plan in force if the streaming job has applied it; otherwise None, and a progress line.

    Raises:
        NotFound: the plan's snapshot has been deleted.
    """
    head = read_head(settings, job)
    if head is None:
        progress.info("nothing to measure: job %s has no plan in force", job)
        return None
    acks = read_acks(settings, job, head.version)
    last = acks[-1] if acks else None
    if last is None or last.status != "applied":
        progress.info("nothing to measure: %s", not_applied_reason(head.version, last))
        return None
    plan = read_plan(settings, job, head.plan_id)
    where = [("snapshot_id", "=", plan.snapshot_id)]
    snapshots = read_rows(settings, "snapshots.snapshots", job=job, where=where,
                          columns=["policy_json"]).to_pylist()  # fmt: skip
    if not snapshots:
        raise NotFound(
            f"snapshot {plan.snapshot_id} of plan {head.plan_id} is gone",
            value=plan.snapshot_id,
            remedy="keep snapshots for as long as their plans are in force",
        )
    policy = policy_from_json(snapshots[0]["policy_json"])
    nodes = read_rows(settings, "snapshots.nodes", job=job, where=where)
    scaling = read_scaling(settings, job, head.plan_id)
    weights = read_weights(settings, job, head.plan_id)
    return AppliedPlan(
        plan=plan,
        ack=last,
        policy=policy,
        key_groups=read_rows(settings, "snapshots.key_groups", job=job, where=where),
        nodes=nodes_under(policy, nodes, scaling) if scaling else nodes,
        scaling=scaling,
        weights=weights,
        connections=_snapshot_connections(settings, job, plan.snapshot_id) if weights else (),
        promises={row.figure: row for row in read_promises(settings, job, head.plan_id)},
    )


def _snapshot_connections(settings: Settings, job: str, snapshot_id: str) -> list[ConnectionWindow]:
    where = [("snapshot_id", "=", snapshot_id)]
    rows = read_rows(settings, ConnectionWindow.table, job=job, where=where)
    return [ConnectionWindow.from_row(row) for row in rows.to_pylist()]


def read_good_rows(
    spark: SparkSession, settings: Settings, table: str, span: MeasuredSpan
) -> DataFrame:
    """The rows of a metrics table that ``condense`` would accept, one for each key."""
    checked = checked_table(TABLES[table], span.policy, span.end)
    rows = read_table(spark, settings, table).where(
        (fn.col("job") == span.policy.job)
        # Partitions of other days are not read.
        & fn.col("window_date").between(span.begin.date(), span.end.date())
        & (fn.col("window_start_at") >= fn.lit(span.begin))
        & (fn.col("window_end_at") <= fn.lit(span.end))
    )
    return with_reasons(with_facts(rows, checked), checked).where(is_good())


def read_measured_connections(
    spark: SparkSession, settings: Settings, span: MeasuredSpan, ack: Ack
) -> list[ConnectionWindow]:
    """A region's connections in the windows wholly after it acknowledged a version."""
    rows = read_good_rows(spark, settings, "metrics.connections", span).where(
        (fn.col("region_id") == ack.region_id)
        & (fn.col("plan_version") == ack.version)
        & (fn.col("window_start_at") >= fn.lit(ack.acked_at))
    )
    # These rows belong to no snapshot.
    return [
        ConnectionWindow.from_row({**row, "snapshot_id": ""}) for row in rows.toArrow().to_pylist()
    ]


def read_region_take_up(
    settings: Settings, job: str, version: int, region_id: str
) -> tuple[Ack | None, Ack | None]:
    """A region's first and last acknowledgement of a version."""
    acks = read_acks(settings, job, version, region_id)
    return (acks[0], acks[-1]) if acks else (None, None)


def read_run_outcomes(settings: Settings, applied: AppliedPlan, run_id: str) -> list[Outcome]:
    """The outcomes of the version that a run has written."""
    outcomes = read_outcomes(settings, applied.plan.job, applied.ack.version)
    return [outcome for outcome in outcomes if outcome.run_id == run_id]


def write_outcomes(settings: Settings, outcomes: Sequence[Outcome]) -> None:
    """Write the outcomes, once for each version and run."""
    ensure_tables(settings, [Outcome.table])
    first = outcomes[0]
    app_id = f"{Outcome.table}:{first.job}:{first.version}:{first.run_id}"
    rows = [outcome.to_row() for outcome in outcomes]
    append_once(settings, Outcome.table, rows, app_id=app_id, app_version=1)
    progress.info("wrote %d figures", len(rows))
