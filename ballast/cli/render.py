"""Output of the command line: aligned tables for people, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from ballast.contracts.json_values import json_value


def text_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table with aligned columns; columns of numbers are aligned to the right."""
    cells = [[cell_text(value) for value in row] for row in rows]
    widths = [
        max(len(header), *(len(row[i]) for row in cells)) if cells else len(header)
        for i, header in enumerate(headers)
    ]
    right = [all(_is_number(row[i]) for row in rows) and bool(rows) for i in range(len(headers))]
    lines = [_line(headers, widths, right), "  ".join("-" * width for width in widths)]
    lines += [_line(row, widths, right) for row in cells]
    return "\n".join(lines)


def record_table(records: Sequence[Any], columns: Sequence[str] = ()) -> str:
    """Return a table of dataclasses of one class: the named fields, or all fields."""
    names = columns or tuple(field.name for field in fields(records[0]))
    return text_table(names, [[getattr(record, name) for name in names] for record in records])


def cell_text(value: Any) -> str:
    """Return a value as text; None is ``-``."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value)


def to_json(value: Any) -> str:
    """Return a value as JSON; times are in ISO 8601."""
    return json.dumps(value, indent=2, default=json_value, ensure_ascii=False)


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(row, widths, right, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
