"""Rows of small tables, cached between reads: a file of a Delta table never changes.

A table of plans has a file a version, and opening hundreds of them takes longer than a person
waits. What was read of a file is cached, so that a read looks at the files that came since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.dataset import FileSystemDataset

from ballast.contracts.errors import BrokenTable, NotFound
from ballast.contracts.schemas import arrow_schema
from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.tables import Filter, dataset_of, open_table, rows_of

Row = Any  # TRANSITION: typed records take its place
MAX_CACHED = 512
# Long texts that a list never shows; read with the one plan they belong to.
LONG_COLUMNS = {"plans.plans": ("trace_json", "target_json", "held_back_json")}


@dataclass(frozen=True)
class _CachedRows:
    """The rows of the files of one job."""

    files: frozenset[str]
    rows: pa.Table


class TableCache:
    """Tables of one warehouse, for a process that reads them again and again, in many threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._cached: OrderedDict[tuple[str, str], _CachedRows] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, name: str) -> DeltaTable | None:
        """The table as it is now; None where it has not been created."""
        try:
            table: DeltaTable = self._whole(name, lambda: open_table(self.settings, name))
        except NotFound:
            return None
        return table

    def jobs(self, name: str) -> set[str]:
        """The jobs that have rows in the table."""
        table = self.open(name)
        if table is None:
            return set()
        return {str(part["job"]) for part in self._whole(name, table.partitions)}

    def rows(self, name: str, job: str) -> list[Row]:
        """All rows of a job in a small table, without its long texts."""
        table = self.open(name)
        if table is None:
            return []
        return list(self._whole(name, lambda: self._up_to_date(name, table, job)).to_pylist())

    def read(
        self, name: str, job: str, where: Sequence[Filter], columns: Sequence[str] | None = None
    ) -> pa.Table | None:
        """Rows that meet the filters, read anew; None where there is no such table."""
        table = self.open(name)
        if table is None:
            return None
        return self._whole(name, lambda: rows_of(table, job, where=where, columns=columns))

    def guarded(self, name: str, action: Callable[[DeltaTable], Any]) -> Any:
        """What an action makes of an open table; None where there is none."""
        table = self.open(name)
        return None if table is None else self._whole(name, lambda: action(table))

    def _up_to_date(self, name: str, table: DeltaTable, job: str) -> pa.Table:
        uris = table.file_uris(file_pruning_predicate=[("job", "=", job)])
        files = frozenset(_file_name(uri) for uri in uris)
        with self._lock:
            cached = self._cached.get((name, job))
            if cached is None or not cached.files <= files:
                cached = _CachedRows(frozenset(), _nullable(_schema(name)).empty_table())
            if cached.files != files:
                fresh = _read_files(name, dataset_of(table, job), files - cached.files)
                cached = _CachedRows(files, pa.concat_tables([cached.rows, fresh]))
            self._store((name, job), cached)
        return cached.rows

    def _store(self, key: tuple[str, str], cached: _CachedRows) -> None:
        self._cached[key] = cached
        self._cached.move_to_end(key)
        while len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)

    def _whole(self, name: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (DeltaError, OSError, pa.ArrowException) as error:
            cause = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            raise BrokenTable(name, self.settings.warehouse, cause) from error


def _schema(name: str) -> pa.Schema:
    """The table as it is defined, without its long texts."""
    long = LONG_COLUMNS.get(name, ())
    return pa.schema([field for field in arrow_schema(TABLES[name]) if field.name not in long])


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Every column may hold NULL, whatever the definition says of new rows."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _read_files(name: str, dataset: Any, files: frozenset[str]) -> pa.Table:
    """The rows of some files; NULL in columns that a table of an earlier version lacks."""
    found = [part for part in dataset.get_fragments() if _file_name(part.path) in files]
    part = FileSystemDataset(found, dataset.schema, dataset.format, dataset.filesystem)
    schema = _schema(name)
    present = [column for column in schema.names if column in dataset.schema.names]
    # Without threads: see ballast.store.tables.rows_of.
    rows = part.to_table(columns=present, use_threads=False)
    columns = [
        rows[field.name].cast(field.type)
        if field.name in present
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)


def _file_name(uri: str) -> str:
    """The last part of an address, which holds a UUID."""
    return uri.rsplit("/", 1)[-1]
