"""Suites as plain data, generated from table definitions, without Great Expectations.

Importing Great Expectations takes seconds, so only ``expectations.run_suite`` does. Suites can be
printed and tested without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ballast.contracts.tables import Column, Table
from expectations.row_rules import CheckedTable

LARGEST_ROW_COUNT = 10**12


@dataclass(frozen=True)
class Expectation:
    """One expectation: its class in Great Expectations, its arguments, and the reason text."""

    kind: str
    arguments: Mapping[str, Any]
    reason: str
    """The reason to report if it fails."""

    @property
    def column(self) -> str | None:
        """The column or columns of the expectation."""
        columns = self.arguments.get("column_list") or [self.arguments.get("column")]
        return ", ".join(columns) if columns[0] else None


@dataclass(frozen=True)
class Suite:
    """The expectations for the rows of one table."""

    name: str
    expectations: tuple[Expectation, ...]
    may_be_empty: bool = False


def table_suite(table: Table, *, may_be_empty: bool = False) -> Suite:
    """Return the expectations that follow from the table's definition.

    ``may_be_empty`` leaves out the expectation that there are rows.
    """
    return checked_suite(CheckedTable(table), may_be_empty=may_be_empty)


def checked_suite(checked: CheckedTable, *, may_be_empty: bool = False) -> Suite:
    """Return the expectations that follow from the table's definition and the job's policy.

    An empty frame passes every check of values, so the number of rows is an expectation of its
    own, unless the table ``may_be_empty``.
    """
    table = checked.table
    of_columns = [
        expectation
        for column in table.columns
        for expectation in _of_column(column, checked.reasons.get(column.name))
    ]
    of_rows = [_unique(table)] if may_be_empty else [_not_empty(table), _unique(table)]
    return Suite(table.name, (*of_rows, *of_columns), may_be_empty)


def _of_column(column: Column, meaning: str | None) -> list[Expectation]:
    """Return a not-null expectation and one for the limits: NULL passes every limit."""
    name = column.name
    expected = []
    if not column.nullable:
        expected.append(
            Expectation("ExpectColumnValuesToNotBeNull", {"column": name}, f"{name} is NULL")
        )
    if column.minimum is not None or column.maximum is not None:
        expected.append(_within(column, meaning))
    if column.allowed is not None:
        arguments = {"column": name, "value_set": list(column.allowed)}
        reason = meaning or f"{name} is not one of {', '.join(column.allowed)}"
        expected.append(Expectation("ExpectColumnValuesToBeInSet", arguments, reason))
    return expected


def _within(column: Column, meaning: str | None) -> Expectation:
    if column.minimum is None or column.maximum is None:
        # NaN passes a bound that has only a minimum.
        raise ValueError(f"column {column.name} has one limit; give it both")
    number = int if column.type == "long" else float
    low, high = number(column.minimum), number(column.maximum)
    reason = meaning or f"{column.name} is NaN, infinite or outside {low:g} to {high:g}"
    arguments = {"column": column.name, "min_value": low, "max_value": high}
    return Expectation("ExpectColumnValuesToBeBetween", arguments, reason)


def _not_empty(table: Table) -> Expectation:
    return Expectation(
        "ExpectTableRowCountToBeBetween",
        {"min_value": 1, "max_value": LARGEST_ROW_COUNT},
        f"{table.name} has no rows",
    )


def _unique(table: Table) -> Expectation:
    reason = f"several rows share one ({', '.join(table.key)})"
    if len(table.key) == 1:
        return Expectation("ExpectColumnValuesToBeUnique", {"column": table.key[0]}, reason)
    arguments = {"column_list": list(table.key)}
    return Expectation("ExpectCompoundColumnsToBeUnique", arguments, reason)
