"""Reads a page of rows in a given order, from the row groups that can contain one of its rows.

The result does not depend on the order of the rows in the files. ``solve`` writes the rows of a
plan in the order of their keys, so that few row groups are read. At most one row group and one
page are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.parquet import filters_to_expression

from ballast.store.tables import Filter, dataset_of

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Order:
    """The columns to sort by, most significant first; the descending one comes first of all."""

    ascending: tuple[str, ...]
    descending: str | None = None
    """A column of numbers."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, most significant first."""
        return (self.descending, *self.ascending) if self.descending else self.ascending

    def key_of(self, row: Mapping[str, Any]) -> Key:
        """Return the sort key of a row; keys compare in ascending order."""
        return tuple(-row[name] if name == self.descending else row[name] for name in self.columns)

    def sort_keys(self) -> list[tuple[str, str]]:
        """Return the order in the form of Arrow's ``sort_by``."""
        return [
            (name, "descending" if name == self.descending else "ascending")
            for name in self.columns
        ]


@dataclass(frozen=True)
class PageRange:
    """Which rows of an order a page has."""

    limit: int
    """The largest number of rows."""
    after: Key | None = None
    """The values of ``order.columns`` of the last row of the previous page."""


@dataclass(frozen=True)
class Page:
    """The rows of a page."""

    rows: list[dict[str, Any]]
    after: Key | None
    """The values of the last row to pass on for the next page; None on the last page."""


def read_page(
    table: DeltaTable,
    job: str,
    *,
    where: Sequence[Filter],
    order: Order,
    span: PageRange,
    condition: pc.Expression | None = None,
) -> Page:
    """Read one page of the rows of a job.

    Args:
        table: the open table.
        job: the job.
        where: filters that every row meets.
        order: the order of the rows; it must be unique.
        span: the largest number of rows, and the row after which the page begins.
        condition: a further condition that filters cannot express.

    Returns:
        The first rows after that row.
    """
    limit, after = span.limit, span.after
    parts = [filters_to_expression([("job", "=", job), *where])]
    parts += [] if condition is None else [condition]
    parts += [] if after is None else [_behind(order, after)]
    wanted = reduce(and_, parts)
    best: pa.Table | None = None
    dataset = dataset_of(table, job, where)
    for lowest, group in _groups(dataset, wanted, order):
        if best is not None and best.num_rows > limit and lowest > _last_key(best, order):
            break
        found = group.to_table(schema=dataset.schema, filter=wanted, use_threads=False)
        best = _first(found if best is None else pa.concat_tables([best, found]), order, limit + 1)
    rows = [] if best is None else best.to_pylist()
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(rows, tuple(rows[-1][name] for name in order.columns) if more else None)


def _behind(order: Order, after: Key) -> pc.Expression:
    """Return the condition for later rows: greater in a column, equal in the columns before."""
    alternatives = []
    for position, name in enumerate(order.columns):
        column, value = pc.field(name), pc.scalar(after[position])
        later = column < value if name == order.descending else column > value
        equal = [
            pc.field(other) == pc.scalar(after[earlier])
            for earlier, other in enumerate(order.columns[:position])
        ]
        alternatives.append(reduce(and_, [*equal, later]))
    return reduce(or_, alternatives)


def _groups(dataset: Any, wanted: pc.Expression, order: Order) -> Iterator[tuple[Key, Any]]:
    """Yield the row groups that may contain a wanted row, sorted by their lowest possible key."""
    groups = [
        (_lowest(group, order), number, group)
        for number, group in enumerate(
            group
            for fragment in dataset.get_fragments(filter=wanted)
            for group in fragment.split_by_row_group(filter=wanted, schema=dataset.schema)
        )
    ]
    unknown = [(key, group) for key, _, group in groups if None in key]
    known = sorted((item for item in groups if None not in item[0]), key=lambda item: item[:2])
    # Row groups without statistics may contain any key, so they are read first.
    yield from (((), group) for _, group in unknown)
    yield from ((key, group) for key, _, group in known)


def _lowest(group: Any, order: Order) -> Key:
    """Return a lower bound of the keys of a row group; None where statistics are missing."""
    statistics = group.row_groups[0].statistics or {}
    key = []
    for name in order.columns:
        of_column = statistics.get(name) or {}
        if name == order.descending:
            key.append(None if of_column.get("max") is None else -of_column["max"])
        else:
            key.append(of_column.get("min"))
    return tuple(key)


def _first(rows: pa.Table, order: Order, count: int) -> pa.Table:
    return rows.sort_by(order.sort_keys()).slice(0, count)


def _last_key(rows: pa.Table, order: Order) -> Key:
    return order.key_of(rows.slice(rows.num_rows - 1).to_pylist()[0])
