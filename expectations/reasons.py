"""The reasons why a row is bad, as one SQL expression generated from the table's limits."""

from __future__ import annotations

from ballast.contracts.table_schemas import column_limits
from ballast.contracts.tables import Column
from expectations.row_rules import CheckedTable

DUPLICATE = "duplicate: the window has another row of this key"


def reasons_sql(checked: CheckedTable) -> str:
    """Return SQL for the array of all reasons why a row is bad; empty for a good row.

    Duplicates are not among them, because they depend on other rows.
    """
    cases = [
        f"CASE WHEN {broken} THEN '{_quoted(reason)}' END"
        for column in checked.table.columns
        for broken, reason in _broken(column, checked.reasons.get(column.name))
    ]
    return f"filter(array({', '.join(cases)}), reason -> reason IS NOT NULL)"


def _broken(column: Column, meaning: str | None) -> list[tuple[str, str]]:
    """Return pairs: a condition that a bad value meets, and the reason."""
    name = column.name
    pairs = [] if column.nullable else [(f"{name} IS NULL", f"{name} is NULL")]
    is_finite = ""
    if column.type == "double":
        # Both break the maximum too; the reason names the right one.
        infinite = f"abs({name}) = double('Infinity')"
        pairs += [(f"isnan({name})", f"{name} is NaN"), (infinite, f"{name} is infinite")]
        is_finite = f"NOT isnan({name}) AND NOT {infinite} AND "
    pairs += [
        (f"{is_finite}NOT ({condition})", meaning or f"{name} is {_reason_text(column, reason)}")
        for reason, condition in column_limits(column).items()
    ]
    return pairs


def _reason_text(column: Column, reason: str) -> str:
    if reason == "too_small" and column.minimum == 0:
        return "negative"
    return reason.replace("_", " ")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
