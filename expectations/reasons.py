"""Why a row is bad, in words, as one SQL expression generated from the table's limits."""

from __future__ import annotations

from ballast.contracts.schemas import column_limits
from ballast.contracts.tables import Column
from expectations.row_rules import CheckedTable

DUPLICATE = "duplicate: the window has another row of this key"


def reasons_sql(checked: CheckedTable) -> str:
    """SQL for the array of all reasons a row is bad; empty for a good row.

    Whether a row is a duplicate depends on other rows and is not among them.
    """
    cases = [
        f"CASE WHEN {broken} THEN '{_quoted(words)}' END"
        for column in checked.table.columns
        for broken, words in _broken(column, checked.words.get(column.name))
    ]
    return f"filter(array({', '.join(cases)}), reason -> reason IS NOT NULL)"


def _broken(column: Column, meaning: str | None) -> list[tuple[str, str]]:
    """Pairs of a condition that a bad value meets and the words for it."""
    name = column.name
    pairs = [] if column.nullable else [(f"{name} IS NULL", f"{name} is NULL")]
    sound = ""
    if column.type == "double":
        # Both break the maximum too; the words shall say which it is.
        infinite = f"abs({name}) = double('Infinity')"
        pairs += [(f"isnan({name})", f"{name} is NaN"), (infinite, f"{name} is infinite")]
        sound = f"NOT isnan({name}) AND NOT {infinite} AND "
    pairs += [
        (f"{sound}NOT ({condition})", meaning or f"{name} is {_words(column, reason)}")
        for reason, condition in column_limits(column).items()
    ]
    return pairs


def _words(column: Column, reason: str) -> str:
    if reason == "too_small" and column.minimum == 0:
        return "negative"
    return reason.replace("_", " ")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
