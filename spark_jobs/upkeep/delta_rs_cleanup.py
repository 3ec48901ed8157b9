"""Tidy a table that delta-rs writes, through delta-rs: who writes a table commits to it.

Spark's commit on local files looks whether the log file is there and then renames over it, so it
could wipe out a commit that delta-rs makes in between (docs/adr/0045).
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
from ballast.store.tables import on_conflict_again, open_table
from spark_jobs.upkeep.expiry import Expired, plan_parts, snapshot_parts

APPEND_ONLY = "delta.appendOnly"
SMALL_BYTES = 32 * 1024 * 1024
"""Files from this size on are left as they are."""
FILES_WORTH_IT = 8
"""A partition with fewer small files is left: writing it anew every night would gain nothing."""
FILES_WORTH_SORTING = 500
SORTED_FILE_BYTES = 8 * 1024 * 1024
"""Where rows are looked up by an id, many files are good, for each knows its ids; from so many on
they become a few that are sorted by the id, and know theirs as well."""


@dataclass(frozen=True)
class Compacted:
    """How many files became how many."""

    removed: int = 0
    added: int = 0


def delete(settings: Settings, expired: Expired) -> int:
    """Remove the rows that have expired; returns how many there were.

    A table without such rows is not written to. Append-only is lifted for the one commit.
    """
    count = count_rows(open_table(settings, expired.table), expired.where)
    if count == 0:
        return 0
    with _removable(settings, expired.table):
        done = on_conflict_again(lambda: open_table(settings, expired.table).delete(expired.where))
    return int(done["num_deleted_rows"] or count)


def count_rows(table: DeltaTable, where: str) -> int:
    """How many rows meet a condition."""
    from deltalake import QueryBuilder

    query = f"SELECT count(*) AS n FROM t WHERE {where}"  # noqa: S608 - made by expiry.py alone
    found = QueryBuilder().register("t", table).execute(query)
    return int(pa.table(found.read_all())["n"][0].as_py())


def compact(settings: Settings, name: str, today: date) -> Compacted:
    """Make few files out of many in every partition that is worth it.

    The day under way is left: a run that reads the newest windows finds them by their files.
    """
    total = Compacted()
    for partition in worth_compacting(open_table(settings, name), name, today):
        filters = [(column, "=", value) for column, value in partition.items()]
        done = on_conflict_again(partial(_rewrite, settings, name, filters))
        total = Compacted(
            total.removed + done["numFilesRemoved"], total.added + done["numFilesAdded"]
        )
    return total


def _rewrite(settings: Settings, name: str, filters: list[tuple[str, str, str]]) -> dict[str, Any]:
    optimize = open_table(settings, name).optimize
    looked_up_by = looked_up_by_id(name)
    if looked_up_by is None:
        return dict(optimize.compact(filters))
    return dict(optimize.z_order([looked_up_by], filters, target_size=SORTED_FILE_BYTES))


def looked_up_by_id(name: str) -> str | None:
    """The column by which single snapshots or plans are found in a table of their parts."""
    if name in snapshot_parts():
        return "snapshot_id"
    return "plan_id" if name in plan_parts() else None


def worth_compacting(table: DeltaTable, name: str, today: date) -> list[dict[str, str]]:
    """Partitions with many small files, without the day under way."""
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
    """Delete files that no version within the table's retention needs; returns how many.

    ``pinned`` versions stay readable, however old. Nothing is written where nothing is to go.
    """
    keep = [version for version in sorted(pinned) if _can_be_read(settings, name, version)]
    options: dict[str, Any] = {"full": True, "keep_versions": keep or None}
    if not open_table(settings, name).vacuum(dry_run=True, **options):
        return 0
    return len(on_conflict_again(
        lambda: open_table(settings, name).vacuum(dry_run=False, **options)
    ))  # fmt: skip


def _can_be_read(settings: Settings, name: str, version: int) -> bool:
    """Whether the log still knows a version: Delta forgets after ``delta.logRetentionDuration``."""
    try:
        open_table(settings, name, version)
    except DeltaError:
        return False
    return True


@contextmanager
def _removable(settings: Settings, name: str) -> Iterator[None]:
    """Lift append-only while rows are removed; a run that was killed is put right by the next."""
    if not TABLES[name].append_only:
        yield
        return
    _set_append_only(settings, name, "false")
    try:
        yield
    finally:
        _set_append_only(settings, name, "true")


def restore_append_only(settings: Settings, name: str) -> bool:
    """Put append-only back where a run died while it was lifted; tells whether that was so."""
    is_off = open_table(settings, name).metadata().configuration.get(APPEND_ONLY) != "true"
    if TABLES[name].append_only and is_off:
        _set_append_only(settings, name, "true")
        return True
    return False


def _set_append_only(settings: Settings, name: str, value: str) -> None:
    properties = {APPEND_ONLY: value}
    on_conflict_again(lambda: open_table(settings, name).alter.set_table_properties(properties))
