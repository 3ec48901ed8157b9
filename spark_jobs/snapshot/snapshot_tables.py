"""Tables that ``condense`` reads and writes while Spark runs: the one edge of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.fault_points import fault_point
from ballast.contracts.records import Record, Snapshot, SnapshotNode, SnapshotNoise
from ballast.contracts.table_schemas import SQL_TYPES
from ballast.contracts.tables import TABLES
from ballast.store import tables as store
from expectations.row_rules import CheckedTable, checked_table
from spark_jobs.program.run import progress
from spark_jobs.snapshot.metric_tables import CONNECTIONS
from spark_jobs.snapshot.run_context import SnapshotRun
from spark_jobs.snapshot.window_rows import of_job_since
from spark_jobs.warehouse.spark_tables import append_frame_once, read_table, retry_on_conflict

REJECTED = "metrics.rejected"


@dataclass(frozen=True)
class MetricRows:
    """Rows of a metrics table with the derived columns that its rules limit."""

    frame: DataFrame
    checked: CheckedTable


def read_metrics(run: SnapshotRun, name: str, version: int, since: datetime) -> MetricRows:
    """The job's rows of a metrics table of windows that end after a time."""
    checked = checked_table(TABLES[name], run.policy, run.request.as_of)
    table = read_table(run.spark, run.settings, name, version)
    rows = with_facts(of_job_since(table, run.request.job, since), checked)
    # Small, and read by every check and step that follows.
    return MetricRows(rows.persist(), checked)


def with_facts(frame: DataFrame, checked: CheckedTable) -> DataFrame:
    """Add the derived columns that the policy's rules limit."""
    return frame.withColumns({name: fn.expr(sql) for name, sql in checked.facts.items()})


def read_planned_placement(run: SnapshotRun) -> DataFrame | None:
    """The assignment of the plan that the newest window ran under; None before the first plan."""
    plan_id = run.context.applied_plan_id
    if plan_id is None:
        return None
    rows = read_table(run.spark, run.settings, "plans.assignments")
    return rows.where((rows.job == run.request.job) & (rows.plan_id == plan_id))


def read_previous_key_groups(run: SnapshotRun) -> DataFrame | None:
    """The key groups of the job's newest snapshot; None without a snapshot."""
    previous = run.context.previous
    if previous is None:
        return None
    rows = read_table(run.spark, run.settings, "snapshots.key_groups")
    return rows.where((rows.job == previous.job) & (rows.snapshot_id == previous.snapshot_id))


def read_previous_noise(run: SnapshotRun) -> list[SnapshotNoise]:
    """The noise of the job's newest snapshot; none without a snapshot or with an older one."""
    previous = run.context.previous
    if previous is None or not store.table_exists(run.settings, SnapshotNoise.table):
        return []
    where = [("snapshot_id", "=", previous.snapshot_id)]
    rows = store.read_rows(run.settings, SnapshotNoise.table, job=run.request.job, where=where)
    return [SnapshotNoise.from_row(row) for row in rows.to_pylist()]


def read_previous_nodes(run: SnapshotRun) -> list[SnapshotNode]:
    """The nodes of the job's newest snapshot; none without a snapshot."""
    previous = run.context.previous
    if previous is None:
        return []
    where = [("snapshot_id", "=", previous.snapshot_id)]
    rows = store.read_rows(run.settings, SnapshotNode.table, job=run.request.job, where=where)
    return [SnapshotNode.from_row(row) for row in rows.to_pylist()]


def read_last_connection_window(
    run: SnapshotRun, region_id: str, since: datetime
) -> datetime | None:
    """End of a region's last window between the day of a time and the period's end."""
    rows = store.read_rows(
        run.settings, CONNECTIONS, job=run.request.job, columns=["window_end_at"],
        version=run.context.pins.connections,
        where=[
            ("window_date", ">=", since.date()),
            ("window_end_at", "<=", run.context.period.end),
            ("region_id", "=", region_id),
        ],
    )  # fmt: skip
    return max(rows["window_end_at"].to_pylist(), default=None)


def merge_rejected(run: SnapshotRun, rejected: DataFrame) -> None:
    """Add rows to ``metrics.rejected`` unless it has them.

    The MERGE inserts only and compares the rows' hashes: a retry, or a run whose period overlaps,
    adds nothing. Of two runs at the same time one commits first and the other merges again.
    """
    rows = rejected.dropDuplicates(["row_id"]).select(*TABLES[REJECTED].column_names)
    # The job's name as a literal makes Delta read the job's partition alone.
    is_same = (fn.col("known.job") == run.request.job) & (
        fn.col("known.row_id") == fn.col("found.row_id")
    )

    def merge() -> None:
        known = DeltaTable.forPath(run.spark, run.settings.table_uri(REJECTED)).alias("known")
        known.merge(rows.alias("found"), is_same).whenNotMatchedInsertAll().execute()

    retry_on_conflict(merge)


def write_details(run: SnapshotRun, details: Mapping[str, DataFrame]) -> None:
    """Append the rows of each table under the snapshot's id.

    Readers ignore them until :func:`write_snapshot` adds the snapshot's own row.
    """
    ids = {"job": fn.lit(run.request.job), "snapshot_id": fn.lit(run.snapshot_id)}
    for name, frame in details.items():
        # Small: one file each.
        rows = frame.withColumns(ids).coalesce(1)
        append_frame_once(rows, run.settings, name, write_id=run.snapshot_id)
        progress.info("wrote %s", name)
        fault_point(f"condense.after_{name}")


def write_snapshot(run: SnapshotRun, *, windows: int, rejected_rows: int) -> None:
    """Append the snapshot's row unless the run has one: of two attempts one wins."""
    request, context = run.request, run.context
    head, pins = context.head, context.pins
    snapshot = Snapshot(
        job=request.job,
        snapshot_id=run.snapshot_id,
        run_id=request.run_id,
        period_start_at=context.period.start,
        period_end_at=context.period.end,
        windows=windows,
        head_version=head.version if head else 0,
        head_plan_id=head.plan_id if head else None,
        key_groups_table_version=pins.key_groups,
        nodes_table_version=pins.nodes,
        traffic_table_version=pins.traffic,
        key_pairs_table_version=pins.key_pairs,
        sources_table_version=pins.sources,
        connections_table_version=pins.connections,
        applied_plan_id=context.applied_plan_id,
        remembered_snapshot_ids=context.remembered or None,
        rejected_rows=rejected_rows,
        policy_json=request.policy.to_json(),
        created_at=datetime.now(UTC),
    )
    fault_point("condense.before_snapshot")
    app_id = f"{Snapshot.table}:{request.job}:{request.run_id}"
    store.append_once(
        run.settings, Snapshot.table, [snapshot.to_row()], app_id=app_id, app_version=1
    )


def record_frame(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    """Records of one kind as a frame with the schema of their table.

    Raises:
        IndexError: there are no records.
    """
    columns = TABLES[records[0].table].columns
    schema = ", ".join(f"{column.name} {SQL_TYPES[column.type]}" for column in columns)
    values = [tuple(getattr(record, column.name) for column in columns) for record in records]
    return spark.createDataFrame(values, schema).coalesce(1)
