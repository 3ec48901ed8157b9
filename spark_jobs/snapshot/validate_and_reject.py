"""Validation of metrics: Great Expectations decides; one predicate splits bad rows from good.

Bad rows are written to ``metrics.rejected`` with their reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from ballast.contracts.errors import GateFailed
from ballast.contracts.fault_points import fault_point
from ballast.contracts.tables import TABLES, Table
from expectations.reasons import DUPLICATE, reasons_sql
from expectations.row_rules import CheckedTable
from expectations.suites import Suite, checked_suite
from spark_jobs.program.run import progress
from spark_jobs.snapshot.message_text import shortened_list
from spark_jobs.snapshot.metric_tables import CONNECTIONS, KEY_PAIRS, SOURCES, TRAFFIC
from spark_jobs.snapshot.run_context import SnapshotRun
from spark_jobs.snapshot.snapshot_tables import REJECTED, MetricRows, merge_rejected

if TYPE_CHECKING:  # Importing it for real takes seconds; condense does that while Spark starts.
    from expectations.run_suite import ValidationReport

MAY_BE_EMPTY = (TRAFFIC, KEY_PAIRS, SOURCES, CONNECTIONS)
"""Traffic, key pairs, sources and connections may be empty; other tables must not."""
WITH_NOISE = ("snapshots.key_groups", "snapshots.traffic", "snapshots.noise")
"""Parts of the snapshot that hold estimates, which are checked before they are written."""
EMPTY_DETAILS = ("snapshots.traffic",)
IDS = ("job", "snapshot_id")


class Validate(Protocol):
    """The type of ``expectations.run_suite.validate``."""

    def __call__(
        self, frame: DataFrame, suite: Suite, *, count: bool = True
    ) -> ValidationReport: ...


@dataclass(frozen=True)
class ValidatedTable:
    """A metrics table's rows of the period, split into good and bad."""

    checked: CheckedTable
    rows: DataFrame
    """All rows, with the derived columns."""
    good: DataFrame
    bad: DataFrame | None = None
    """Rows with reasons, to be rejected; None if every row is good."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.checked.table.name


@dataclass(frozen=True)
class ValidatedMetrics:
    """The validated tables by name, and the number of rows that were rejected."""

    tables: dict[str, ValidatedTable]
    rejected_rows: int

    def good(self, name: str) -> DataFrame:
        """The good rows of a table."""
        return self.tables[name].good


def validate_metrics(
    run: SnapshotRun, tables: Iterable[MetricRows], validate: Validate
) -> ValidatedMetrics:
    """Split the rows of each table, write the bad rows to ``metrics.rejected``.

    Raises:
        GateFailed: the good rows of a table do not pass.
    """
    split = [split_bad_rows(rows, validate) for rows in tables]
    reasons = reject_bad_rows(run, split)
    fault_point("condense.after_rejected")
    if reasons:
        progress.info("rejected %d bad rows: %s", reasons.total(), reason_counts(reasons))
    for table in split:
        require_good(table, validate)
    return ValidatedMetrics({table.name: table for table in split}, reasons.total())


def split_bad_rows(rows: MetricRows, validate: Validate) -> ValidatedTable:
    """Validate the rows of a table; if that fails, split good rows from bad rows."""
    frame, checked = rows.frame, rows.checked
    report = validate(frame, _suite(checked), count=False)
    if report.success:
        progress.info("%s", report)
        return ValidatedTable(checked, frame, frame)
    progress.info("gate found %s", report)
    with_reason_columns = with_reasons(frame, checked).persist()
    return ValidatedTable(
        checked, frame, with_reason_columns.where(is_good()), with_reason_columns.where(~is_good())
    )


def with_reasons(frame: DataFrame, checked: CheckedTable) -> DataFrame:
    """Add ``row_id``, ``row_json`` and ``reasons``, which is empty for a good row.

    Of several good rows with one key, the row written last is good and the others are duplicates.
    The rows' hash breaks ties, so that every run that reads the same rows chooses the same one.
    """
    name = checked.table.name
    own = [fn.col(column) for column in TABLES[name].column_names]
    named = (
        frame.withColumn("row_json", fn.to_json(fn.struct(*own), {"ignoreNullFields": "false"}))
        .withColumn("row_id", fn.sha2(fn.concat_ws("\n", fn.lit(name), "row_json"), 256))
        .withColumn("reasons", fn.expr(reasons_sql(checked)))
    )
    order = Window.partitionBy(*checked.table.key, is_good()).orderBy(
        fn.col("emitted_at").desc(), fn.col("row_id").desc()
    )
    reasons = fn.when(is_good() & (fn.col("place") > 1), fn.array(fn.lit(DUPLICATE)))
    return (
        named.withColumn("place", fn.row_number().over(order))
        .withColumn("reasons", reasons.otherwise(fn.col("reasons")))
        .drop("place")
    )


def is_good() -> Column:
    """Whether a row has no reason to be rejected."""
    return fn.size("reasons") == 0


def rejected_rows(bad: DataFrame, table: str, run_id: str, at: datetime) -> DataFrame:
    """Bad rows as rows of ``metrics.rejected``; copies of one row have one id."""
    return bad.select(
        "job",
        "row_id",
        fn.lit(table).alias("table_name"),
        fn.lit(run_id).alias("run_id"),
        "reasons",
        "row_json",
        fn.lit(at).alias("rejected_at"),
    )


def reject_bad_rows(run: SnapshotRun, tables: Iterable[ValidatedTable]) -> Counter[str]:
    """Write the bad rows to ``metrics.rejected``, each once; returns reasons with counts."""
    bad = [
        rejected_rows(table.bad, table.name, run.request.run_id, run.request.as_of)
        for table in tables
        if table.bad is not None
    ]
    if not bad:
        return Counter()
    rejected = reduce(DataFrame.unionByName, bad).persist()
    reasons: Counter[str] = Counter()
    for row in rejected.groupBy("table_name", "reasons").count().collect():
        reasons[f"{row['table_name']}: {', '.join(row['reasons'])}"] += row["count"]
    if reasons:
        merge_rejected(run, rejected)
    rejected.unpersist()
    return reasons


def require_good(table: ValidatedTable, validate: Validate) -> None:
    """Raise :class:`GateFailed` if the good rows of a table do not pass."""
    if table.bad is None:
        return
    report = validate(table.good, _suite(table.checked))
    if not report.success:
        raise GateFailed(
            f"the rows that are left do not pass: {report}; see {REJECTED} for what was set "
            "aside and why, correct what the streaming job writes, then start a new run"
        )


def require_good_details(details: Mapping[str, DataFrame], validate: Validate) -> None:
    """Raise :class:`GateFailed` if loads or noise of the snapshot are no usable numbers.

    The frames have no ids yet, so the definitions are checked without them.
    """
    for name in WITH_NOISE:
        suite = checked_suite(without_ids(TABLES[name]), may_be_empty=name in EMPTY_DETAILS)
        report = validate(details[name], suite)
        if not report.success:
            raise GateFailed(
                f"the rows for {name} cannot be used: {report}; nothing was written; to fix it: "
                "look for absurd values in the job's metrics, then start a new run"
            )
        progress.info("%s", report)


def without_ids(table: Table) -> CheckedTable:
    """The definition of a snapshot's table without the columns that every row shares."""
    return CheckedTable(
        replace(
            table,
            columns=tuple(column for column in table.columns if column.name not in IDS),
            key=tuple(name for name in table.key if name not in IDS),
        )
    )


def reason_counts(reasons: Counter[str]) -> str:
    """The commonest reasons with their counts, as text."""
    return shortened_list([f"{reason} ({count})" for reason, count in reasons.most_common()])


def _suite(checked: CheckedTable) -> Suite:
    return checked_suite(checked, may_be_empty=checked.table.name in MAY_BE_EMPTY)
