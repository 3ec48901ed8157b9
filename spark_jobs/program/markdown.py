"""Markdown tables and text; values are escaped, so that none of them is markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&$])")


def escaped(text: object) -> str:
    """The text on one line, with Markdown and HTML escaped."""
    line = " ".join(str(text).split())
    return _SPECIAL.sub(r"\\\1", line).replace("\\<", "&lt;").replace("\\>", "&gt;")


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; columns of numbers are aligned to the right."""
    right = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(headers))]
    rule = ["---:" if to_right else "---" for to_right in right]
    lines = [headers, rule, *([cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: Any) -> str:
    """A value as text: thousands separators, two decimals, ``-`` for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    return escaped(value)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
