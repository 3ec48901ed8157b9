"""Tables that ``measure`` reads and writes: the one edge of this package."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import policy_from_json
from ballast.contracts.records import Ack, ConnectionWindow, Outcome
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
from spark_jobs.outcome.applied_plan import AppliedPlan, MeasuredSpan, not_applied_reason
from spark_jobs.program.run import progress
from spark_jobs.snapshot.bad_rows import is_good, with_facts, with_reasons
from spark_jobs.warehouse.spark_tables import read_table


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
