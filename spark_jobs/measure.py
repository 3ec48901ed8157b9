"""Compare what the plan in force promised with what came:
``spark-submit spark_jobs/measure.py --job J --run-id R``.

Loads and traffic come from the windows wholly after the plan was applied, moves, bytes and pause
from what the streaming job measured while moving. No plan, no word from the job or too few
windows is no failure: it is said, and the next run measures.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ballast.contracts.errors import NotFound
from ballast.contracts.policy import JobPolicy, policy_from_json
from ballast.contracts.schemas import column_limits
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES, Column
from ballast.store.plans import read_acks, read_head, read_outcomes, read_plan
from ballast.store.tables import append_once, ensure_tables, read_rows
from spark_jobs.arguments import add_as_of_argument, add_run_arguments
from spark_jobs.outcomes import (
    Expected,
    Window,
    enough_at,
    measure_figures,
    outcome_rows,
    report,
    usable_windows,
    windows_needed,
)
from spark_jobs.problems import Row
from spark_jobs.program import progress, run_program, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Statistics periods that are looked through for complete windows, however long the history is.
PERIODS_READ = 2

Sessions = Callable[[], AbstractContextManager["SparkSession"]]


@dataclass(frozen=True)
class Applied:
    """A plan in force that the streaming job has applied."""

    plan: Row
    ack: Row
    policy: JobPolicy
    nodes: pa.Table
    """Nodes of the plan's snapshot: the promise holds for these capacities and states."""

    @property
    def staying(self) -> list[str]:
        """Nodes that the promised load distance is over."""
        pairs = zip(
            self.nodes["node_id"].to_pylist(), self.nodes["state"].to_pylist(), strict=True
        )
        return [node for node, state in pairs if state == "alive"]

    @property
    def expected(self) -> Expected:
        """What a complete window holds."""
        key_groups = sum(operator.key_groups for operator in self.policy.operators)
        return Expected(key_groups, len(self.staying), self.ack["batch_id"])


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
    return rows


def find_applied(settings: Settings, job: str) -> Applied | None:
    """The plan in force if the streaming job has applied it; otherwise says why not."""
    head = read_head(settings, job)
    if head is None:
        progress.info("nothing to measure: job %s has no plan in force", job)
        return None
    acks = {ack["status"]: ack for ack in read_acks(settings, job, head.version)}
    if "applied" not in acks:
        progress.info("nothing to measure: %s", _why_not_applied(head.version, acks))
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
    nodes = read_rows(settings, "snapshots.nodes", job=job, where=where)
    return Applied(plan, acks["applied"], policy, nodes)


def good_rows(frame: DataFrame, table: str) -> DataFrame:
    """Rows that keep every limit of the table's definition, and one a key: the first written."""
    from pyspark.sql import Window as SqlWindow
    from pyspark.sql import functions as sf

    definition = TABLES[table]
    conditions = [sql for column in definition.columns for sql in _conditions(column)]
    turn = SqlWindow.partitionBy(*definition.key).orderBy("emitted_at")
    return (
        frame.where(" AND ".join(conditions))
        .withColumn("turn", sf.row_number().over(turn))
        .where("turn = 1")
        .drop("turn")
    )


def _measure(
    spark: SparkSession, settings: Settings, applied: Applied, run_id: str, as_of: datetime
) -> list[Row]:
    usable = usable_windows(
        _windows(spark, settings, applied, as_of), applied.expected,
        applied.policy.windows_per_period,
    )  # fmt: skip
    progress.info("found %d usable windows", len(usable))
    if len(usable) < windows_needed(applied.policy):
        progress.info("%s", _not_enough(applied, usable, as_of))
        return []
    measured = measure_figures(
        applied.policy,
        _loads(spark, settings, applied, usable),
        applied.nodes,
        _rates(spark, settings, applied, usable),
    )
    rows = outcome_rows(applied.plan, applied.ack, measured, usable, run_id, datetime.now(UTC))
    progress.info("measured")
    ensure_tables(settings, ["plans.outcomes"])
    app_id = f"plans.outcomes:{applied.plan['job']}:{applied.ack['version']}:{run_id}"
    append_once(settings, "plans.outcomes", rows, app_id=app_id, app_version=1)
    progress.info("wrote %d figures", len(rows))
    return _outcomes(settings, applied, run_id)


def _windows(
    spark: SparkSession, settings: Settings, applied: Applied, as_of: datetime
) -> list[Window]:
    """Every window under the version in the last periods, with what it holds."""
    from pyspark.sql import functions as sf

    span = timedelta(seconds=applied.policy.statistics_period_s * PERIODS_READ)
    begin = max(as_of - span, applied.ack["acked_at"] - timedelta(seconds=applied.policy.window_s))
    groups = _rows_between(spark, settings, "metrics.key_groups", applied, begin, as_of)
    nodes = _rows_between(spark, settings, "metrics.nodes", applied, begin, as_of)
    by_window = ("window_start_at", "window_end_at")
    counted = groups.groupBy(*by_window).agg(
        sf.min("first_batch_id").alias("first_batch_id"),
        sf.count("*").alias("key_groups"),
    )
    heard = (
        nodes.where(sf.col("node_id").isin(applied.staying))
        .groupBy(*by_window)
        .agg(sf.count("*").alias("nodes"))
    )
    return [Window(*row) for row in _utc_rows(counted.join(heard, list(by_window)))]


def _loads(
    spark: SparkSession, settings: Settings, applied: Applied, windows: Sequence[Window]
) -> pa.Table:
    """Mean load and last node of each key group, in the columns of snapshots.key_groups."""
    from pyspark.sql import functions as sf

    seconds = applied.policy.window_s * len(windows)
    begin, end = windows[0].start_at, windows[-1].end_at
    rows = _rows_between(spark, settings, "metrics.key_groups", applied, begin, end)
    return (
        rows.where(sf.col("window_start_at").isin([w.start_at for w in windows]))
        .groupBy("operator_id", "key_group")
        .agg(
            sf.max_by("node_id", "window_start_at").alias("node_id"),
            (sf.sum("cpu_ms") / (1000 * seconds)).alias("cpu_load_cores"),
            sf.avg("state_bytes").alias("memory_load_bytes"),
            (sf.sum(sf.col("bytes_in") + sf.col("bytes_out")) / seconds).alias(
                "network_load_bytes_per_s"
            ),
            sf.max_by("state_bytes", "window_start_at").alias("state_bytes"),
        )
        .toArrow()
    )


def _rates(
    spark: SparkSession, settings: Settings, applied: Applied, windows: Sequence[Window]
) -> pa.Table:
    """Mean rate between key groups, in the columns of snapshots.traffic."""
    from pyspark.sql import functions as sf

    seconds = applied.policy.window_s * len(windows)
    begin, end = windows[0].start_at, windows[-1].end_at
    ends = [f"{end}_{part}" for end in ("from", "to") for part in ("operator_id", "key_group")]
    return (
        _rows_between(spark, settings, "metrics.traffic", applied, begin, end)
        .where(sf.col("window_start_at").isin([w.start_at for w in windows]))
        .groupBy(*ends)
        .agg((sf.sum("records") / seconds).alias("records_per_s"))
        .toArrow()
    )


def _rows_between(
    spark: SparkSession,
    settings: Settings,
    table: str,
    applied: Applied,
    begin: datetime,
    end: datetime,
) -> DataFrame:
    """Good rows of the job under the version whose windows lie between; reads only their days."""
    from pyspark.sql import functions as sf

    from spark_jobs.tables import read_table

    frame = read_table(spark, settings, table).where(
        (sf.col("job") == applied.plan["job"])
        & sf.col("window_date").between(begin.date(), end.date())
        & (sf.col("window_start_at") >= sf.lit(begin))
        & (sf.col("window_end_at") <= sf.lit(end))
        & (sf.col("plan_version") == applied.ack["version"])
    )
    if "node_id" in frame.columns:
        frame = frame.where(sf.col("node_id").isin(applied.nodes["node_id"].to_pylist()))
    if "operator_id" in frame.columns:
        frame = frame.where(_known_key_group(applied.policy))
    return good_rows(frame, table)


def _known_key_group(policy: JobPolicy) -> str:
    return " OR ".join(
        f"(operator_id = '{operator.id}' AND key_group < {operator.key_groups})"
        for operator in policy.operators
    )


def _conditions(column: Column) -> list[str]:
    """SQL that a good value meets; NULL meets none of them, so it is let through where allowed."""
    if not column.nullable:
        return [f"{column.name} IS NOT NULL", *column_limits(column).values()]
    return [f"({column.name} IS NULL OR {sql})" for sql in column_limits(column).values()]


def _utc_rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Rows with times in UTC, whatever zone this machine is in."""
    return [tuple(row.values()) for row in frame.toArrow().to_pylist()]


def _outcomes(settings: Settings, applied: Applied, run_id: str) -> list[Row]:
    rows = read_outcomes(settings, applied.plan["job"], applied.ack["version"])
    return [row for row in rows if row["run_id"] == run_id]


def _why_not_applied(version: int, acks: dict[str, Row]) -> str:
    if "refused" in acks:
        return f"the streaming job refused version {version}: {acks['refused']['reason']}"
    if "accepted" in acks:
        return f"the streaming job accepted version {version} and has not applied it yet"
    return f"the streaming job has not answered to version {version} yet"


def _not_enough(applied: Applied, usable: Sequence[Window], as_of: datetime) -> str:
    at = enough_at(applied.policy, usable, applied.ack["acked_at"], as_of)
    return (
        f"not enough windows yet to measure version {applied.ack['version']}: {len(usable)} of "
        f"{windows_needed(applied.policy)}; enough at about {at:%Y-%m-%d %H:%M:%S} UTC"
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
    sys.exit(main())
