"""Suites as plain data, generated from table definitions; no Great Expectations is imported here.

Importing it takes seconds, so only ``expectations.runner`` does, and what a suite holds can be
looked at and tested without it.
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
    """One expectation: the name of its Great Expectations class, its arguments, and words."""

    kind: str
    arguments: Mapping[str, Any]
    words: str
    """What is wrong when it does not hold."""

    @property
    def column(self) -> str | None:
        """The column or columns it is about."""
        columns = self.arguments.get("column_list") or [self.arguments.get("column")]
        return ", ".join(columns) if columns[0] else None


@dataclass(frozen=True)
class Suite:
    """Everything that must hold for the rows of one table."""

    name: str
    expectations: tuple[Expectation, ...]
    may_be_empty: bool = False


def table_suite(table: Table, *, may_be_empty: bool = False) -> Suite:
    """What the table's definition demands of its rows."""
    return checked_suite(CheckedTable(table), may_be_empty=may_be_empty)


def checked_suite(checked: CheckedTable, *, may_be_empty: bool = False) -> Suite:
    """What the definition and the job's policy demand of the table's rows.

    An empty frame passes every check of values, so the number of rows is an expectation of its
    own unless the table may be empty.
    """
    table = checked.table
    of_columns = [
        expectation
        for column in table.columns
        for expectation in _of_column(column, checked.words.get(column.name))
    ]
    of_rows = [_unique(table)] if may_be_empty else [_not_empty(table), _unique(table)]
    return Suite(table.name, (*of_rows, *of_columns), may_be_empty)


def _of_column(column: Column, meaning: str | None) -> list[Expectation]:
    """Not-null and limits in pairs: NULL passes every limit."""
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
        words = meaning or f"{name} is not one of {', '.join(column.allowed)}"
        expected.append(Expectation("ExpectColumnValuesToBeInSet", arguments, words))
    return expected


def _within(column: Column, meaning: str | None) -> Expectation:
    if column.minimum is None or column.maximum is None:
        # NaN passes a bound that has only a minimum.
        raise ValueError(f"column {column.name} has one limit; give it both")
    number = int if column.type == "long" else float
    low, high = number(column.minimum), number(column.maximum)
    words = meaning or f"{column.name} is NaN, infinite or outside {low:g} to {high:g}"
    arguments = {"column": column.name, "min_value": low, "max_value": high}
    return Expectation("ExpectColumnValuesToBeBetween", arguments, words)


def _not_empty(table: Table) -> Expectation:
    return Expectation(
        "ExpectTableRowCountToBeBetween",
        {"min_value": 1, "max_value": LARGEST_ROW_COUNT},
        f"{table.name} has no rows",
    )


def _unique(table: Table) -> Expectation:
    words = f"several rows share one ({', '.join(table.key)})"
    if len(table.key) == 1:
        return Expectation("ExpectColumnValuesToBeUnique", {"column": table.key[0]}, words)
    arguments = {"column_list": list(table.key)}
    return Expectation("ExpectCompoundColumnsToBeUnique", arguments, words)
