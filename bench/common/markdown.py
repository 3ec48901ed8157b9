"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([line(heads), "|" + "---|" * len(heads), *map(line, rows)])
