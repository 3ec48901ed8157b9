"""A cache of the rows of small tables, for a process that reads them often.

A table of plans has one file per version, and it takes seconds to open hundreds of files. A file
of a Delta table never changes. So the cache stores the rows of each file that it has read, and
reads only the files that were added since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.dataset import FileSystemDataset
from pyarrow.parquet import filters_to_expression

from ballast.contracts.errors import BrokenTable, NotFound
from ballast.contracts.records import Record, field_names
from ballast.contracts.settings import Settings
from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import TABLES
from ballast.store.tables import Filter, dataset_of, open_table, rows_of

MAX_CACHED = 512
R = TypeVar("R", bound=Record)
T = TypeVar("T")


@dataclass(frozen=True)
class _Selection:
    """The rows of a job that meet every filter."""

    kind: type[Record]
    job: str
    where: tuple[Filter, ...] = ()


@dataclass(frozen=True)
class _CachedRows:
    """Rows of one selection, and the names of the files that they come from."""

    files: frozenset[str]
    rows: pa.Table


class TableCache:
    """Reads the tables of one warehouse; several threads may use the same object."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._cached: OrderedDict[_Selection, _CachedRows] = OrderedDict()
        self._lock = threading.Lock()

    def jobs(self, name: str) -> set[str]:
        """Return the jobs that have rows in the table; none where the table does not exist."""
        parts = self.apply(name, lambda table: table.partitions())
        return set() if parts is None else {str(part["job"]) for part in parts}

    def records(self, kind: type[R], job: str, *where: Filter) -> list[R]:
        """Return the rows of a job that meet every filter, as records and in no order.

        The rows are cached, so they must be few. Columns that the record does not have are not
        read.

        Raises:
            BrokenTable: the table exists and cannot be read.
        """
        selection = _Selection(kind, job, where)
        rows = self.apply(kind.table, lambda table: self._up_to_date(selection, table))
        return [] if rows is None else [kind.from_row(row) for row in rows.to_pylist()]

    def is_cached(self, kind: type[Record], job: str) -> bool:
        """Return whether the cache has all rows of the job."""
        return _Selection(kind, job) in self._cached

    def read_records(self, kind: type[R], job: str, *where: Filter) -> list[R]:
        """Return the rows of a job that meet every filter; they are not taken from the cache."""
        rows = self.read(kind.table, job, where)
        return [] if rows is None else [kind.from_row(row) for row in rows.to_pylist()]

    def read(
        self, name: str, job: str, where: Sequence[Filter], columns: Sequence[str] | None = None
    ) -> pa.Table | None:
        """Return the rows of :meth:`read_records` as columns; None where no table exists."""
        return self.apply(name, lambda table: rows_of(table, job, where=where, columns=columns))

    def apply(self, name: str, action: Callable[[DeltaTable], T]) -> T | None:
        """Return the result of an action on a table; None where the table does not exist.

        Raises:
            BrokenTable: the table exists and cannot be read.
        """
        try:
            return action(open_table(self.settings, name))
        except NotFound:
            return None
        except (DeltaError, OSError, pa.ArrowException) as error:
            cause = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise BrokenTable(name, self.settings.warehouse, cause) from error

    def _up_to_date(self, selection: _Selection, table: DeltaTable) -> pa.Table:
        kind, job = selection.kind, selection.job
        uris = table.file_uris(file_pruning_predicate=[("job", "=", job)])
        files = frozenset(_file_name(uri) for uri in uris)
        with self._lock:
            cached = self._cached.get(selection)
            if cached is None or not cached.files <= files:
                cached = _CachedRows(frozenset(), _nullable(_schema(kind)).empty_table())
            if cached.files != files:
                added = files - cached.files
                fresh = _read_files(_schema(kind), dataset_of(table, job), added, selection.where)
                cached = _CachedRows(files, pa.concat_tables([cached.rows, fresh]))
            self._store(selection, cached)
        return cached.rows

    def _store(self, selection: _Selection, cached: _CachedRows) -> None:
        self._cached[selection] = cached
        self._cached.move_to_end(selection)
        while len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)


def _schema(kind: type[Record]) -> pa.Schema:
    """Return the columns of a record class, with the types of its table."""
    names = field_names(kind)
    return pa.schema([field for field in arrow_schema(TABLES[kind.table]) if field.name in names])


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the schema with NULL allowed everywhere: rows of earlier versions lack columns."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _read_files(
    schema: pa.Schema, dataset: Any, files: frozenset[str], where: Sequence[Filter]
) -> pa.Table:
    """Return the matching rows of some files; a column that the table lacks is NULL."""
    found = [part for part in dataset.get_fragments() if _file_name(part.path) in files]
    part = FileSystemDataset(found, dataset.schema, dataset.format, dataset.filesystem)
    present = [column for column in schema.names if column in dataset.schema.names]
    # ballast.store.tables.rows_of says why no threads are used.
    wanted = filters_to_expression(list(where)) if where else None
    rows = part.to_table(columns=present, filter=wanted, use_threads=False)
    columns = [
        rows[field.name].cast(field.type)
        if field.name in present
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)


def _file_name(uri: str) -> str:
    """Return the last part of an address; it contains a UUID and is therefore unique."""
    return uri.rsplit("/", 1)[-1]
