"""Create, read and append to Delta tables through delta-rs, in milliseconds and without a JVM."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem
from pyarrow.parquet import filters_to_expression

from ballast.contracts.errors import InvalidInput, NotFound
from ballast.contracts.schemas import arrow_schema, check_constraints, table_properties
from ballast.contracts.settings import Settings, check_job_name
from ballast.contracts.tables import TABLES, Table

ATTEMPTS = 20
T = TypeVar("T")
Filter = tuple[str, str, Any]
# A page of a plan of a million key groups is then read from a few row groups, not from all of it.
WRITER = WriterProperties(max_row_group_size=65_536)


def ensure_tables(settings: Settings, names: Sequence[str] = tuple(TABLES)) -> None:
    """Create the named tables where they do not exist, with all their constraints.

    A table of an earlier version gets the columns it lacks, with NULL in the rows it has; one
    that would need a column without NULL is an error that says what to do. A constraint that has
    come to allow other words is replaced.

    Safe to call by several processes at once, and again after one died half-way.
    """
    for name in names:
        retry_on_commit_conflict(partial(_ensure_table, settings, TABLES[name]))


def table_exists(settings: Settings, name: str) -> bool:
    """Whether the table has been created."""
    return bool(DeltaTable.is_deltatable(address(settings, name)))


def open_table(settings: Settings, name: str, version: int | None = None) -> DeltaTable:
    """The table as it is now, or as it was at a version."""
    try:
        return DeltaTable(address(settings, name), version=version)
    except TableNotFoundError as error:
        raise NotFound(
            f"table {name} does not exist in warehouse {settings.warehouse}",
            value=name,
            allowed="an existing warehouse",
            remedy="set BALLAST_WAREHOUSE, or run the streaming job or `make run` first",
        ) from error


def read_rows(
    settings: Settings,
    name: str,
    *,
    job: str,
    where: Sequence[Filter] = (),
    columns: Sequence[str] | None = None,
    version: int | None = None,
) -> pa.Table:
    """Rows of one job that meet every filter; only the job's partition is read."""
    return rows_of(open_table(settings, name, version), job, where=where, columns=columns)


def rows_of(
    table: DeltaTable,
    job: str,
    *,
    where: Sequence[Filter] = (),
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Rows of one job in a table as it was opened."""
    wanted = filters_to_expression([("job", "=", job), *where])
    # Without threads: rows of one job are few, and a table elsewhere is read through a Python
    # object that threads must not hold when the interpreter ends (see _local_files).
    return dataset_of(table, job, where).to_table(
        filter=wanted, columns=list(columns) if columns else None, use_threads=False
    )


def dataset_of(table: DeltaTable, job: str, where: Sequence[Filter] = ()) -> Any:
    """The files of one job that may hold rows which meet the filters, by Delta's statistics."""
    equal = [each for each in where if each[1] == "=" and type(each[2]) in (str, int)]
    return table.to_pyarrow_dataset(
        filesystem=_local_files(table), file_pruning_predicate=[("job", "=", job), *equal]
    )


def _local_files(table: DeltaTable) -> FileSystem | None:
    """Arrow's own access to a table on this machine; None where it is elsewhere.

    Arrow reads ahead in threads of its own, which may still hold delta-rs's file system, a Python
    object, when the interpreter ends: the process then aborts after all its work is done.
    """
    address = urlsplit(table.table_uri)
    if address.scheme not in ("", "file"):
        return None
    return SubTreeFileSystem(url2pathname(address.path), LocalFileSystem())


def append(settings: Settings, name: str, rows: Sequence[dict[str, Any]] | pa.Table) -> None:
    """Append rows; a row that breaks a constraint of a trusted table is refused."""
    data = _as_arrow(name, rows)
    retry_on_commit_conflict(
        lambda: write_deltalake(
            address(settings, name), data, mode="append", writer_properties=WRITER
        )
    )


def append_once(
    settings: Settings,
    name: str,
    rows: Sequence[dict[str, Any]] | pa.Table,
    *,
    app_id: str,
    app_version: int,
) -> bool:
    """Append unless this or a later version of the application's writes is already there.

    The version is stored in the same commit as the rows, so a writer that died and repeats its
    last write adds nothing. Of several that write the same at once, one does: delta-rs fails the
    commit of the others, which then find the version there.
    """
    data = _as_arrow(name, rows)
    mark = CommitProperties(app_transactions=[Transaction(app_id, app_version)])

    def write() -> bool:
        table = open_table(settings, name)
        done = table.transaction_version(app_id)
        if done is not None and done >= app_version:
            return False
        write_deltalake(
            table, data, mode="append", commit_properties=mark, writer_properties=WRITER
        )
        return True

    return retry_on_commit_conflict(write)


def replace_if_unmoved(
    table: DeltaTable, name: str, job: str, rows: Sequence[dict[str, Any]], *, mark: str
) -> bool:
    """Replace the job's rows by a commit right after the version ``table`` was opened at.

    Returns False, with nothing written, if any other commit came first. The commit is tried once:
    delta-rs creates a log file only where none is, in one step on a local disk and on object
    stores that can, and without retries it never moves a commit behind another one. ``mark`` is
    kept in the table's history.
    """
    once = CommitProperties(max_commit_retries=0, custom_metadata={"userMetadata": mark})
    try:
        write_deltalake(
            table,
            _as_arrow(name, rows),
            mode="overwrite",
            # A job name cannot hold a quote.
            predicate=f"job = '{check_job_name(job)}'",
            commit_properties=once,
        )
    except CommitFailedError:
        return False
    return True


def address(settings: Settings, name: str) -> str:
    """Address of a table in the form delta-rs takes; it knows ``s3://`` but not ``s3a://``."""
    uri = settings.table_uri(name)
    return "s3://" + uri.removeprefix("s3a://") if uri.startswith("s3a://") else uri


def _ensure_table(settings: Settings, table: Table) -> None:
    created = _opened_or_created(settings, table)
    _add_missing_columns(created, table, address(settings, table.name))
    present = created.metadata().configuration
    lacking = {k: v for k, v in table_properties(table).items() if k not in present}
    if lacking:
        created.alter.set_table_properties(lacking)
    wanted = check_constraints(table)
    found = {name: present.get(f"delta.constraints.{name}") for name in wanted}
    changed = [name for name, old in found.items() if old and _words(old) != _words(wanted[name])]
    for name in changed:
        created.alter.drop_constraint(name, raise_if_not_exists=False)
    missing = {name: wanted[name] for name, old in found.items() if not old or name in changed}
    if missing:
        created.alter.add_constraint(missing)
    for name in table.retired_checks:
        if f"delta.constraints.{name}" in present:
            created.alter.drop_constraint(name, raise_if_not_exists=False)


def _opened_or_created(settings: Settings, table: Table) -> DeltaTable:
    """To open one that is there takes half as long as to find out by creating it."""
    if table_exists(settings, table.name):
        return open_table(settings, table.name)
    return DeltaTable.create(
        address(settings, table.name),
        schema=arrow_schema(table),
        mode="ignore",
        partition_by=list(table.partition_by),
        name=table.name,
        description=table.doc,
        configuration=dict(table_properties(table)),
    )


def _words(condition: str) -> set[str]:
    """The quoted words of a condition: a later version may allow more, such as another event.

    Only these tell an old condition from a new one, for delta-rs writes all else in its own form.
    """
    return set(re.findall("'[^']*'", condition))


def _add_missing_columns(found: DeltaTable, table: Table, where: str) -> None:
    present = {field.name for field in found.schema().fields}
    missing = [name for name in table.column_names if name not in present]
    if not missing:
        return
    schema = arrow_schema(table)
    for name in missing:
        if not schema.field(name).nullable:
            raise InvalidInput(
                f"table {table.name} at {where} was made by an earlier version and has no column "
                f"{name}, which may not be NULL and so cannot be added",
                value=name, allowed=", ".join(table.column_names),
                remedy="move the table's folder away, so that it is made anew, or use another "
                "BALLAST_WAREHOUSE",
            )  # fmt: skip
    wanted = pa.schema([schema.field(name) for name in missing])
    found.alter.add_columns(list(Schema.from_arrow(wanted).fields))


def _as_arrow(name: str, rows: Sequence[dict[str, Any]] | pa.Table) -> pa.Table:
    schema = arrow_schema(TABLES[name])
    if isinstance(rows, pa.Table):
        return rows.select(schema.names).cast(schema)
    return pa.Table.from_pylist(list(rows), schema=schema)


def retry_on_commit_conflict(action: Callable[[], T]) -> T:
    """Run an action, again where another writer's commit came in between.

    Raises:
        DeltaError: the action failed for another reason, or ``ATTEMPTS`` times.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return action()
        except (CommitFailedError, DeltaError) as error:
            if not isinstance(error, CommitFailedError) and "conflict" not in str(error).lower():
                raise
            time.sleep(0.02 * attempt)
    return action()
