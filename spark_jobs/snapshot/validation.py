"""The gate: Great Expectations decides; bad rows are split off by one predicate and set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ballast.contracts.errors import GateFailed
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from expectations.policy_rules import CheckedTable
from expectations.suites import Suite, checked_suite
from spark_jobs.program.run import progress
from spark_jobs.snapshot.messages import some
from spark_jobs.snapshot.request import Request
from spark_jobs.snapshot.row_checks import is_good, rejected_rows, with_reasons
from spark_jobs.warehouse.spark_tables import on_conflict_again

if TYPE_CHECKING:  # Importing it for real takes seconds, which belong beside Spark's start.
    from expectations.runner import ValidationReport

REJECTED = "metrics.rejected"


class Validate(Protocol):
    """``expectations.runner.validate``."""

    def __call__(
        self, frame: DataFrame, suite: Suite, *, count: bool = True
    ) -> ValidationReport: ...


@dataclass(frozen=True)
class Gated:
    """A table's rows of the period, gated."""

    checked: CheckedTable
    rows: DataFrame
    """All rows, with the facts."""
    good: DataFrame
    bad: DataFrame | None = None
    """Rows with reasons, to be set aside; None if every row is good."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.checked.table.name


def split_bad_rows(
    rows: DataFrame, checked: CheckedTable, validate: Validate, *, may_be_empty: bool = False
) -> Gated:
    """Validate the rows; only if that fails, part good from bad rows, which are counted then."""
    report = validate(rows, checked_suite(checked, may_be_empty=may_be_empty), count=False)
    if report.success:
        progress.info("%s", report)
        return Gated(checked, rows, rows)
    progress.info("gate found %s", report)
    judged = with_reasons(rows, checked).persist()
    return Gated(checked, rows, judged.where(is_good()), judged.where(~is_good()))


def set_aside(
    spark: SparkSession, settings: Settings, request: Request, tables: Iterable[Gated]
) -> Counter[str]:
    """Write the bad rows to ``metrics.rejected``, each once ever; returns reasons with counts.

    An insert-only MERGE on the rows' hashes: a retry, or a run whose period overlaps, finds them
    there. Of two runs at once one commits first and the other merges again.
    """
    bad = [
        rejected_rows(table.bad, table.name, request.run_id, request.as_of)
        for table in tables
        if table.bad is not None
    ]
    if not bad:
        return Counter()
    found = reduce(DataFrame.unionByName, bad).persist()
    reasons: Counter[str] = Counter()
    for row in found.groupBy("table_name", "reasons").count().collect():
        reasons[f"{row['table_name']}: {', '.join(row['reasons'])}"] += row["count"]
    if reasons:
        _merge(spark, settings, request.job, found.dropDuplicates(["row_id"]))
    found.unpersist()
    return reasons


def require_good(table: Gated, validate: Validate, *, may_be_empty: bool = False) -> None:
    """What is left after the bad rows were set aside must pass, or there is no snapshot."""
    if table.bad is None:
        return
    report = validate(table.good, checked_suite(table.checked, may_be_empty=may_be_empty))
    if not report.success:
        raise GateFailed(
            f"the rows that are left do not pass: {report}; see {REJECTED} for what was set "
            "aside and why, correct what the streaming job writes, then start a new run"
        )


def in_words(reasons: Counter[str]) -> str:
    """The commonest reasons with their counts."""
    return some([f"{reason} ({count})" for reason, count in reasons.most_common()])


def _merge(spark: SparkSession, settings: Settings, job: str, found: DataFrame) -> None:
    rows = found.select(*TABLES[REJECTED].column_names)
    # The job's name as a literal lets Delta read the job's partition alone.
    same = (fn.col("known.job") == job) & (fn.col("known.row_id") == fn.col("found.row_id"))

    def merge() -> None:
        known = DeltaTable.forPath(spark, settings.table_uri(REJECTED)).alias("known")
        known.merge(rows.alias("found"), same).whenNotMatchedInsertAll().execute()

    on_conflict_again(merge)
