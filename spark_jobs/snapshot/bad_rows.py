"""Good and bad rows of metrics: the reasons of each row, and bad rows as rejected rows."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from ballast.contracts.tables import TABLES
from expectations.reasons import DUPLICATE, reasons_sql
from expectations.row_rules import CheckedTable


def with_facts(frame: DataFrame, checked: CheckedTable) -> DataFrame:
    """Add the derived columns that the policy's rules limit."""
    return frame.withColumns({name: fn.expr(sql) for name, sql in checked.facts.items()})


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
