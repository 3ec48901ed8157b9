"""Clean a table that delta-rs writes, through delta-rs: one engine commits to one table.

On local files Spark checks whether the log file exists and then renames its own file over it. It
could overwrite a commit that delta-rs makes in between (ADR 45).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import open_table, retry_on_commit_conflict, table_exists
from spark_jobs.upkeep.expired_rows import ExpiredRows, plan_parts, snapshot_parts

APPEND_ONLY = "delta.appendOnly"
SMALL_BYTES = 32 * 1024 * 1024
"""Files of this size or larger are not rewritten."""
FILES_WORTH_IT = 8
"""A partition with fewer small files is not rewritten: doing so every night would gain nothing."""
FILES_WORTH_SORTING = 500
SORTED_FILE_BYTES = 8 * 1024 * 1024
"""A table whose rows are looked up by an id stays fast with many files, because the log has the
range of ids of each file. From this many files on it becomes a few files sorted by the id."""


@dataclass(frozen=True)
class CompactedFiles:
    """Number of files that were merged, and of files that replaced them."""

    removed: int = 0
    added: int = 0


@dataclass(frozen=True)
class PendingWork:
    """What there is to do on a table that Spark writes."""

    expired: tuple[ExpiredRows, ...]
    """Conditions that some rows meet."""
    crowded_partitions: int
    """Partitions with many small files."""
    unused_files: int

    @property
    def is_any(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.expired or self.crowded_partitions or self.unused_files)


def existing_tables(settings: Settings) -> list[str]:
    """The tables of the warehouse that exist."""
    return [name for name in TABLES if table_exists(settings, name)]


def restore_table(settings: Settings, name: str, *, add_columns: bool) -> bool:
    """Check that the table can be read, add missing columns, and restore append-only.

    Returns:
        Whether a run that died had left append-only off.
    """
    open_table(settings, name)
    if add_columns:
        ensure_tables(settings, [name])
    return restore_append_only(settings, name)


def pending_work(settings: Settings, name: str, expired: Sequence[ExpiredRows]) -> PendingWork:
    """What there is to do on a table that Spark writes; nothing is changed.

    Args:
        settings: where the tables are.
        name: the table.
        expired: conditions on the rows to remove.
    """
    table = open_table(settings, name)
    return PendingWork(
        expired=tuple(rows for rows in expired if count_rows(table, rows.where)),
        crowded_partitions=len(worth_compacting(table, name, date.max)),
        unused_files=len(table.vacuum(dry_run=True, full=True)),
    )


def delete(settings: Settings, expired: ExpiredRows) -> int:
    """Remove expired rows; returns their number.

    A table without expired rows is not written. Append-only is switched off for this one commit.
    """
    count = count_rows(open_table(settings, expired.table), expired.where)
    if count == 0:
        return 0
    with _removable(settings, expired.table):
        done = retry_on_commit_conflict(
            lambda: open_table(settings, expired.table).delete(expired.where)
        )
    return int(done["num_deleted_rows"] or count)


def count_rows(table: DeltaTable, where: str) -> int:
    """Number of rows that meet a condition."""
    from deltalake import QueryBuilder

    query = f"SELECT count(*) AS n FROM t WHERE {where}"  # noqa: S608 - made by expired_rows.py alone
    found = QueryBuilder().register("t", table).execute(query)
    return int(pa.table(found.read_all())["n"][0].as_py())


def compact(settings: Settings, name: str, today: date) -> CompactedFiles:
    """Merge the small files of every partition that has many.

    The partition of today is left: a run finds the newest windows by their files.
    """
    total = CompactedFiles()
    for partition in worth_compacting(open_table(settings, name), name, today):
        filters = [(column, "=", value) for column, value in partition.items()]
        done = retry_on_commit_conflict(partial(_rewrite, settings, name, filters))
        total = CompactedFiles(total.removed + done.removed, total.added + done.added)
    return total


def _rewrite(settings: Settings, name: str, filters: list[tuple[str, str, str]]) -> CompactedFiles:
    optimize = open_table(settings, name).optimize
    column = looked_up_by_id(name)
    if column is None:
        done = optimize.compact(filters)
    else:
        done = optimize.z_order([column], filters, target_size=SORTED_FILE_BYTES)
    return CompactedFiles(done["numFilesRemoved"], done["numFilesAdded"])


def looked_up_by_id(name: str) -> str | None:
    """The id column by which rows of a snapshot or plan are looked up; None for other tables."""
    if name in snapshot_parts():
        return "snapshot_id"
    return "plan_id" if name in plan_parts() else None


def worth_compacting(table: DeltaTable, name: str, today: date) -> list[dict[str, str]]:
    """Partitions with many small files, without the partition of today."""
    columns = TABLES[name].partition_by
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    counted: Counter[tuple[str, ...]] = Counter(
        tuple(str(file[f"partition.{column}"]) for column in columns)
        for file in files
        if file["size_bytes"] < SMALL_BYTES
        and all(file[f"partition.{column}"] is not None for column in columns)
    )
    partitions = [
        dict(zip(columns, values, strict=True))
        for values, count in sorted(counted.items())
        if count >= (FILES_WORTH_SORTING if looked_up_by_id(name) else FILES_WORTH_IT)
    ]
    return [p for p in partitions if p.get("window_date", "") < today.isoformat()]


def vacuum(settings: Settings, name: str, pinned: Sequence[int]) -> int:
    """Delete files that no version within the table's retention needs; returns their number.

    ``pinned`` versions stay readable, however old. If there is no such file, nothing is written.
    """
    keep = [version for version in sorted(pinned) if _can_be_read(settings, name, version)]
    options: dict[str, Any] = {"full": True, "keep_versions": keep or None}
    if not open_table(settings, name).vacuum(dry_run=True, **options):
        return 0
    return len(retry_on_commit_conflict(
        lambda: open_table(settings, name).vacuum(dry_run=False, **options)
    ))  # fmt: skip


def _can_be_read(settings: Settings, name: str, version: int) -> bool:
    """Whether the log still has a version: Delta keeps it for ``delta.logRetentionDuration``."""
    try:
        open_table(settings, name, version)
    except DeltaError:
        return False
    return True


@contextmanager
def _removable(settings: Settings, name: str) -> Iterator[None]:
    """Switch append-only off while rows are removed; the next run repairs what a kill leaves."""
    if not TABLES[name].append_only:
        yield
        return
    _set_append_only(settings, name, "false")
    try:
        yield
    finally:
        _set_append_only(settings, name, "true")


def restore_append_only(settings: Settings, name: str) -> bool:
    """Switch append-only on again if a run died while it was off; returns whether that was so."""
    is_off = open_table(settings, name).metadata().configuration.get(APPEND_ONLY) != "true"
    if TABLES[name].append_only and is_off:
        _set_append_only(settings, name, "true")
        return True
    return False


def _set_append_only(settings: Settings, name: str, value: str) -> None:
    properties = {APPEND_ONLY: value}
    retry_on_commit_conflict(
        lambda: open_table(settings, name).alter.set_table_properties(properties)
    )
