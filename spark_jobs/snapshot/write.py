"""Write a snapshot: its rows first, then the one row that puts it in force."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.schemas import SQL_TYPES
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store import tables as store
from spark_jobs.program.fault_points import fault_point
from spark_jobs.program.run import progress
from spark_jobs.snapshot.lookup import SNAPSHOTS
from spark_jobs.snapshot.request import Found, Request, Row
from spark_jobs.warehouse.spark_tables import append_once


def write_details(
    settings: Settings, job: str, snapshot_id: str, details: dict[str, DataFrame]
) -> None:
    """Append the rows of each table under the snapshot's id; nobody reads them yet."""
    for name, frame in details.items():
        # Small: one file each.
        rows = frame.withColumns({"job": fn.lit(job), "snapshot_id": fn.lit(snapshot_id)})
        append_once(rows.coalesce(1), settings, name, write_id=snapshot_id)
        progress.info("wrote %s", name)
        fault_point(f"condense.after_{name}")


def write_snapshot(
    settings: Settings,
    request: Request,
    found: Found,
    *,
    windows: int,
    rejected_rows: int,
) -> None:
    """Append the snapshot's row unless the run has one: of two attempts one wins."""
    head = found.head
    row = {
        "job": request.job,
        "snapshot_id": found.snapshot_id(request),
        "run_id": request.run_id,
        "period_start_at": found.period.start,
        "period_end_at": found.period.end,
        "windows": windows,
        "head_version": head.version if head else 0,
        "head_plan_id": head.plan_id if head else None,
        "key_groups_table_version": found.pins.key_groups,
        "nodes_table_version": found.pins.nodes,
        "traffic_table_version": found.pins.traffic,
        "key_pairs_table_version": found.pins.key_pairs,
        "sources_table_version": found.pins.sources,
        "connections_table_version": found.pins.connections,
        "applied_plan_id": found.applied_plan_id,
        "remembered_snapshot_ids": list(found.remembered) or None,
        "rejected_rows": rejected_rows,
        "policy_json": request.policy.to_json(),
        "created_at": datetime.now(UTC),
    }
    fault_point("condense.before_snapshot")
    app_id = f"{SNAPSHOTS}:{request.job}:{request.run_id}"
    store.append_once(settings, SNAPSHOTS, [row], app_id=app_id, app_version=1)


def frame_of(spark: SparkSession, table: str, rows: Sequence[Row]) -> DataFrame:
    """Rows made in Python as a frame of the table's schema."""
    columns = TABLES[table].columns
    schema = ", ".join(f"{column.name} {SQL_TYPES[column.type]}" for column in columns)
    values = [tuple(row[column.name] for column in columns) for row in rows]
    return spark.createDataFrame(values, schema).coalesce(1)
