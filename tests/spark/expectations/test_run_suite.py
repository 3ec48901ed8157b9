"""The runner on real frames: valid frames, invalid frames, and the text of the report."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql import DataFrame, SparkSession

from ballast.contracts.tables import Column, Table
from expectations.run_suite import validate
from expectations.suites import table_suite

SCHEMA = "id STRING, value DOUBLE, count BIGINT, state STRING"
TABLE = Table(
    "test.readings", "Readings", "test",
    columns=(
        Column("id", "string", "Id"),
        Column("value", "double", "Value", minimum=0, maximum=1e12),
        Column("count", "long", "Count", nullable=True, minimum=0, maximum=10**15),
        Column("state", "string", "State", allowed=("up", "down")),
    ),
    key=("id",),
)  # fmt: skip
GOOD = [("a", 1.0, 5, "up"), ("b", 2.0, None, "down")]


def frame(spark: SparkSession, rows: list[tuple[object, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA)


def test_good_rows_pass_and_leave_nothing_cached(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    report = validate(frame(spark, GOOD), table_suite(TABLE))
    assert report.success
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before
    assert "Calculating Metrics" not in capfd.readouterr().err


def test_every_broken_limit_is_reported_with_its_count(spark: SparkSession) -> None:
    rows = [
        *GOOD,
        ("c", float("nan"), 1, "up"),
        ("d", float("inf"), 1, "up"),
        ("e", -1.0, 1, "up"),
        ("f", None, -7, "lost"),
        ("f", 1.0, 1, "up"),
    ]
    report = validate(frame(spark, rows), table_suite(TABLE))
    assert not report.success
    found = {
        (failure.expectation.kind, failure.column): failure.count for failure in report.failures
    }
    assert found == {
        ("ExpectColumnValuesToBeBetween", "value"): 3,
        ("ExpectColumnValuesToNotBeNull", "value"): 1,
        ("ExpectColumnValuesToBeBetween", "count"): 1,
        ("ExpectColumnValuesToBeInSet", "state"): 1,
        ("ExpectColumnValuesToBeUnique", "id"): 2,
    }
    assert "value is NaN, infinite or outside 0 to 1e+12 (3 rows)" in str(report)


def test_no_rows_fail_unless_there_may_be_none(spark: SparkSession) -> None:
    empty = frame(spark, [])
    assert str(validate(empty, table_suite(TABLE))) == "test.readings: test.readings has no rows"
    assert validate(empty, table_suite(TABLE, may_be_empty=True)).success


def test_a_missing_column_fails(spark: SparkSession) -> None:
    report = validate(frame(spark, GOOD).drop("value"), table_suite(TABLE))
    assert {failure.column for failure in report.failures} == {"value"}


def test_nothing_is_sent_anywhere(spark: SparkSession) -> None:
    validate(frame(spark, GOOD), table_suite(TABLE))
    assert "posthog" not in sys.modules
