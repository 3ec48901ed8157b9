"""Output of the command line: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ballast.cli.terminal import output_terminal
from ballast.contracts.json_values import json_value

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

HEAD, FAINT, GOOD, WARNING, BAD = "bold", "dim", "green", "yellow", "red"
"""Styles of the terminal's own palette, which fits light and dark backgrounds."""
SIDE_STYLES = {"(inside)": GOOD, "(below)": WARNING, "(above)": BAD}
SPACE = 2
"""Columns of a terminal between two columns of a table."""
ROWS_SHOWN = 2_000
"""Rows of the longest table; --json has them all."""
# Eight lines of four characters: left, fill, divider, right of each kind of line of a table.
UNICODE_RULES = "    \n    \n ─  \n    \n    \n    \n    \n    \n"
ASCII_RULES = UNICODE_RULES.replace("─", "-")


def text_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> RenderableType:
    """A table with aligned columns; columns of numbers are aligned to the right.

    On a terminal that is too narrow for the columns, each row is a list of names and values.

    Args:
        headers: the headings.
        rows: the values; a text of rich keeps its style.
    """
    from rich.console import Group

    shown = [[_cell(value) for value in row] for row in rows[:ROWS_SHOWN]]
    more = len(rows) - len(shown)
    rest = [f"and {more:,} more (--json has them all)"] if more else []
    columns = [
        _column(header, [row[number] for row in rows[:ROWS_SHOWN]])
        for number, header in enumerate(headers)
    ]
    narrowest = sum(column.narrowest + SPACE for column in columns) - SPACE
    if rows and narrowest > output_terminal().columns:
        return Group(*_stacked(headers, shown), *rest)
    return Group(_aligned(columns, shown), *rest)


@dataclass(frozen=True)
class _Column:
    """How a column of a table is laid out."""

    header: str
    is_number: bool
    no_wrap: bool
    natural: int
    """The width without a line break."""
    narrowest: int
    """The width that it needs: that of its longest word, or of its longest value."""


def _column(header: str, values: Sequence[Any]) -> _Column:
    from rich.cells import cell_len

    texts = [_plain(value) for value in values]
    is_number = any(value is not None for value in values) and all(map(_is_number, values))
    # Only text of several words is broken into lines: a name or a number stays whole.
    no_wrap = is_number or any(getattr(value, "no_wrap", False) for value in values)
    words = [header, *texts] if no_wrap else " ".join([header, *texts]).split()
    lines = [line for text in [header, *texts] for line in text.split("\n")]
    natural, narrowest = (max(map(cell_len, parts), default=0) for parts in (lines, words))
    return _Column(header, is_number, no_wrap, natural, narrowest)


def column_widths(natural: Sequence[int], narrowest: Sequence[int], available: int) -> list[int]:
    """Widths of columns that together fit; the widest ones that can be narrower are made so.

    Args:
        natural: the width that each column would like to have.
        narrowest: the width that each column needs.
        available: the width of all columns together.
    """
    widths = list(natural)
    while sum(widths) > available:
        spare = [i for i, width in enumerate(widths) if width > narrowest[i]]
        if not spare:
            break
        widths[max(spare, key=lambda i: widths[i])] -= 1
    return widths


def _aligned(columns: Sequence[_Column], rows: Sequence[Sequence[RenderableType]]) -> Table:
    from rich import box
    from rich.table import Table

    has_unicode = output_terminal().has_unicode
    rules = box.Box(UNICODE_RULES if has_unicode else ASCII_RULES, ascii=not has_unicode)
    table = Table(box=rules, show_edge=False, pad_edge=False, padding=(0, SPACE - 1, 0, 0),
                  header_style=HEAD)  # fmt: skip
    widths = column_widths(
        [column.natural for column in columns],
        [column.narrowest for column in columns],
        output_terminal().columns - SPACE * (len(columns) - 1),
    )
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.header, justify="right" if column.is_number else "left", overflow="fold",
            no_wrap=column.no_wrap, width=width,
        )  # fmt: skip
    for row in rows:
        table.add_row(*row)
    return table


def _stacked(
    headers: Sequence[str], rows: Sequence[Sequence[RenderableType]]
) -> Iterator[RenderableType]:
    for number, row in enumerate(rows):
        if number:
            yield ""
        yield pairs_table(zip(headers, row, strict=True))


def record_table(records: Sequence[Any], columns: Sequence[str] = ()) -> RenderableType:
    """A table of dataclasses of one class: the named fields, or all fields."""
    names = columns or tuple(field.name for field in fields(records[0]))
    rows = [[getattr(record, name) for name in names] for record in records]
    return text_table([title_of(name) for name in names], rows)


def pairs_table(pairs: Iterable[tuple[str, Any]]) -> Table:
    """Names and values, one pair in a line; a long value is continued below its start."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style=FAINT)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(title_of(name), _cell(value))
    return table


def section(title: str, body: RenderableType | None) -> RenderableType:
    """A titled part of the output; without a body it says that there is none."""
    from rich.console import Group

    return Group(styled(title, HEAD), "  (none yet)" if body is None else body)


def styled(text: str, style: str, *, is_picture: bool = False) -> Text:
    """Text in one style; a picture is never broken into lines."""
    from rich.text import Text

    return Text(text, style=style, no_wrap=True if is_picture else None)


def measured_cell(text: str | None) -> Text | None:
    """A measured value in the colour of its side of the promised interval."""
    if text is None:
        return None
    style = next((found for side, found in SIDE_STYLES.items() if text.endswith(side)), "")
    return styled(text, style)


def title_of(name: str) -> str:
    """The name of a field as a heading; a value with its unit needs none in the heading."""
    return name.removesuffix("_id").replace("_", " ").replace(" pct", ", %")


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
    """Return a value as JSON; times are in ISO 8601.

    Characters that standard output may not be able to encode are escaped.
    """
    is_ascii = not output_terminal().has_unicode
    return json.dumps(value, indent=2, default=json_value, ensure_ascii=is_ascii)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    sys.stdout.write(to_json(value) + "\n")


def _cell(value: Any) -> RenderableType:
    return value if hasattr(value, "plain") else cell_text(value)


def _plain(value: Any) -> str:
    return str(getattr(value, "plain", None) or cell_text(value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
