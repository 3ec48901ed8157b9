"""Reads and writes Delta tables with delta-rs, in milliseconds and without a JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem
from pyarrow.parquet import filters_to_expression

from ballast.contracts.contract_version import check_contract
from ballast.contracts.errors import NotFound
from ballast.contracts.settings import Settings, check_job_name
from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import TABLES

ATTEMPTS = 20
T = TypeVar("T")
Filter = tuple[str, str, Any]
# Small row groups: a page of a plan with a million key groups is read from a few of them.
WRITER = WriterProperties(max_row_group_size=65_536)


# Limits of each call to an object store; without them a store that does not answer holds its caller
# for ever. A request takes 0.1 s, a file of a large table some seconds. Tables on this machine have
# no such calls.
STORE_OPTIONS = {
    "connect_timeout": "5s",
    "timeout": "30s",
    "max_retries": "3",
    "retry_timeout": "60s",
}


def table_exists(settings: Settings, name: str) -> bool:
    """Return whether the table exists.

    Raises:
        OSError: the store does not answer.
    """
    options = store_options(settings)
    return bool(DeltaTable.is_deltatable(address(settings, name), storage_options=options))


def store_options(settings: Settings) -> dict[str, str] | None:
    """Return the limits of calls to the warehouse's store; None for a folder."""
    return dict(STORE_OPTIONS) if "://" in settings.warehouse else None


def open_table(settings: Settings, name: str, version: int | None = None) -> DeltaTable:
    """Open a table at its current version or at an earlier one.

    Raises:
        NotFound: the table does not exist.
        ContractMismatch: a later version of Ballast has written it.
    """
    try:
        table = DeltaTable(
            address(settings, name), version=version, storage_options=store_options(settings)
        )
    except TableNotFoundError as error:
        raise NotFound(
            f"table {name} does not exist in warehouse {settings.warehouse}",
            value=name,
            allowed="an existing warehouse",
            remedy="set BALLAST_WAREHOUSE, or run the streaming job or `make run` first",
        ) from error
    # The properties were read with the table: checking them reads nothing.
    check_contract(name, table.metadata().configuration)
    return table


def read_rows(
    settings: Settings,
    name: str,
    *,
    job: str,
    where: Sequence[Filter] = (),
    columns: Sequence[str] | None = None,
    version: int | None = None,
) -> pa.Table:
    """Return the rows of one job that meet every filter; only the job's partition is read.

    Args:
        settings: where the warehouse is.
        name: the table.
        job: the job.
        where: the filters.
        columns: the columns to read; all by default.
        version: a version of the Delta table; the current one by default.

    Raises:
        NotFound: the table does not exist.
    """
    return rows_of(open_table(settings, name, version), job, where=where, columns=columns)


def rows_of(
    table: DeltaTable,
    job: str,
    *,
    where: Sequence[Filter] = (),
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the rows of one job in an open table that meet every filter.

    Args:
        table: the open table.
        job: the job.
        where: the filters.
        columns: the columns to read; all by default.
    """
    wanted = filters_to_expression([("job", "=", job), *where])
    # No threads are used: a job has few rows, and a table on another machine is read through a
    # Python object that no thread may use when the interpreter ends (see _local_files).
    return dataset_of(table, job, where).to_table(
        filter=wanted, columns=list(columns) if columns else None, use_threads=False
    )


def dataset_of(table: DeltaTable, job: str, where: Sequence[Filter] = ()) -> Any:
    """Return the files of one job that may contain matching rows, by the statistics of Delta."""
    equal = [each for each in where if each[1] == "=" and type(each[2]) in (str, int)]
    return table.to_pyarrow_dataset(
        filesystem=_local_files(table), file_pruning_predicate=[("job", "=", job), *equal]
    )


def _local_files(table: DeltaTable) -> FileSystem | None:
    """Return Arrow's own file system for a table on this machine; None for other tables.

    Arrow reads ahead in its own threads. If they still use the file system of delta-rs, a Python
    object, when the interpreter ends, the process aborts after it has done all its work.
    """
    address = urlsplit(table.table_uri)
    if address.scheme not in ("", "file"):
        return None
    return SubTreeFileSystem(url2pathname(address.path), LocalFileSystem())


def append(settings: Settings, name: str, rows: Sequence[dict[str, Any]] | pa.Table) -> None:
    """Append rows to a table; a conflict with another writer is tried again.

    Raises:
        DeltaError: a row breaks a constraint of the table; nothing is written.
    """
    data = _as_arrow(name, rows)
    retry_on_commit_conflict(
        lambda: write_deltalake(
            address(settings, name),
            data,
            mode="append",
            writer_properties=WRITER,
            storage_options=store_options(settings),
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
    """Append rows unless the table already has this or a later version of the application.

    The version is stored in the same commit as the rows. So a writer that stopped and repeats its
    last write adds nothing. If several writers write the same version at the same time, one
    succeeds: delta-rs refuses the commits of the others, and their next try finds the version.

    Args:
        settings: where the warehouse is.
        name: the table.
        rows: the rows.
        app_id: the id of the application, unique for each sequence of writes.
        app_version: the number of the write.

    Returns:
        Whether the rows were written.
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
    """Replace the rows of a job if no other commit came since the table was opened.

    The commit is tried once. delta-rs creates the log file of the next version only if that file
    does not exist, in one atomic step. Without retries it never moves the commit behind another.

    Args:
        table: the table as it was opened; its version is the expected one.
        name: the name of the table.
        job: the job.
        rows: the new rows of the job.
        mark: a text for the history of the table.

    Returns:
        True if the rows were replaced; False if another commit came first.
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
    """Return the address of a table for delta-rs, which accepts ``s3://`` but not ``s3a://``."""
    uri = settings.table_uri(name)
    return "s3://" + uri.removeprefix("s3a://") if uri.startswith("s3a://") else uri


def _as_arrow(name: str, rows: Sequence[dict[str, Any]] | pa.Table) -> pa.Table:
    schema = arrow_schema(TABLES[name])
    if isinstance(rows, pa.Table):
        return rows.select(schema.names).cast(schema)
    return pa.Table.from_pylist(list(rows), schema=schema)


def is_commit_conflict(error: Exception) -> bool:
    """Whether delta-rs refused a commit because another writer was first."""
    if isinstance(error, CommitFailedError):
        return True
    return isinstance(error, DeltaError) and "conflict" in str(error).lower()


def retry_on_commit_conflict(
    action: Callable[[], T], is_conflict: Callable[[Exception], bool] = is_commit_conflict
) -> T:
    """Run an action; run it again if it conflicts with the commit of another writer.

    Args:
        action: what to run.
        is_conflict: whether an error of the action is such a conflict; by delta-rs by default.

    Returns:
        What the action returns.

    Raises:
        Exception: the error of the action, if it is no conflict or came ``ATTEMPTS`` times.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return action()
        except Exception as error:
            if not is_conflict(error):
                raise
            time.sleep(0.02 * attempt)
    return action()
