"""Suites have limits with both ends, not-null and key expectations for all that tables define."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ballast.contracts.tables import TABLES, Column, Table
from expectations.reasons import reasons_sql
from expectations.row_rules import CheckedTable, checked_table
from expectations.suites import Expectation, checked_suite, table_suite
from tests.support.policies import small_policy

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
METRICS = ("metrics.key_groups", "metrics.nodes", "metrics.traffic")
SNAPSHOTS = ("snapshots.snapshots", "snapshots.key_groups", "snapshots.nodes", "snapshots.traffic")


def of_kind(expectations: tuple[Expectation, ...], kind: str) -> dict[str | None, dict[str, Any]]:
    return {e.column: dict(e.arguments) for e in expectations if e.kind == kind}


@pytest.mark.parametrize("name", METRICS + SNAPSHOTS)
def test_every_column_that_must_not_be_null_is_expected_not_to_be(name: str) -> None:
    table = TABLES[name]
    found = of_kind(table_suite(table).expectations, "ExpectColumnValuesToNotBeNull")
    assert set(found) == {column.name for column in table.columns if not column.nullable}


@pytest.mark.parametrize("name", METRICS + SNAPSHOTS)
def test_every_number_is_bound_at_both_ends(name: str) -> None:
    table = TABLES[name]
    found = of_kind(table_suite(table).expectations, "ExpectColumnValuesToBeBetween")
    assert set(found) == {c.name for c in table.columns if c.type in ("long", "double")}
    for arguments in found.values():
        assert arguments["min_value"] is not None
        assert arguments["max_value"] is not None


@pytest.mark.parametrize("name", METRICS + SNAPSHOTS)
def test_rows_are_there_and_their_keys_differ(name: str) -> None:
    kinds = [e.kind for e in table_suite(TABLES[name]).expectations]
    assert kinds.count("ExpectTableRowCountToBeBetween") == 1
    assert kinds.count("ExpectCompoundColumnsToBeUnique") == 1


def test_a_table_that_may_be_empty_needs_no_rows() -> None:
    suite = table_suite(TABLES["metrics.traffic"], may_be_empty=True)
    assert "ExpectTableRowCountToBeBetween" not in [e.kind for e in suite.expectations]


def test_a_bound_with_one_end_is_refused() -> None:
    column = Column("x", "double", "x", minimum=0)
    with pytest.raises(ValueError, match="both"):
        table_suite(Table("t.t", "t", "test", (column,), key=("x",)))


def test_the_policy_names_what_is_known() -> None:
    policy = small_policy(operators={"parse": 3, "count": 5}, nodes=["a", "b"])
    suite = checked_suite(checked_table(TABLES["metrics.key_groups"], policy, NOW))
    sets = of_kind(suite.expectations, "ExpectColumnValuesToBeInSet")
    assert sets["operator_id"]["value_set"] == ["parse", "count"]
    assert sets["node_id"]["value_set"] == ["a", "b"]


def test_the_policy_limits_windows_and_key_groups() -> None:
    policy = small_policy(thresholds={"late_after_s": 60})
    checked = checked_table(TABLES["metrics.traffic"], policy, NOW)
    bounds = of_kind(checked_suite(checked).expectations, "ExpectColumnValuesToBeBetween")
    length = bounds["window_length_us"]
    assert (length["min_value"], length["max_value"]) == (5_000_000, 5_000_000)
    assert bounds["window_offset_us"]["max_value"] == 0
    assert bounds["late_by_us"]["max_value"] == 60_000_000
    assert bounds["from_key_group_excess"]["max_value"] == -1
    assert bounds["to_key_group_excess"]["max_value"] == -1
    assert set(checked.facts) <= set(bounds)


def test_a_limit_is_both_expected_and_a_reason() -> None:
    """The predicate must find what the gate refuses, or bad rows could never be split off."""
    policy = small_policy()
    for name in METRICS:
        checked = checked_table(TABLES[name], policy, NOW)
        sql = reasons_sql(checked)
        for expectation in checked_suite(checked).expectations:
            if "column" in expectation.arguments:
                assert str(expectation.column) in sql


def test_reasons_are_words() -> None:
    sql = reasons_sql(CheckedTable(TABLES["metrics.key_groups"]))
    for words in ("cpu_ms is NULL", "cpu_ms is NaN", "cpu_ms is infinite", "cpu_ms is negative",
                  "cpu_ms is too large"):  # fmt: skip
        assert f"'{words}'" in sql


def test_suites_and_reasons_need_no_great_expectations() -> None:
    """Importing it takes seconds; only the runner may do that."""
    import subprocess
    import sys

    code = (
        "import sys, expectations.suites, expectations.reasons, expectations.row_rules; "
        "sys.exit('great_expectations' in sys.modules or 'pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
