"""Writes the results of the real jobs from their states to SQLite, between batches.

One transaction replaces all rows and stores the id of their batch. So a reader sees the results of
exactly one batch, a batch that is written twice gives the same rows, and an older batch never
replaces a newer one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ballast.contracts.errors import NotFound
from ballast.contracts.settings import Settings
from ballast.streaming import StreamingJob, read_states
from ballast.streaming.batch_versions import DecisionLog
from ballast.streaming.job_state import job_folder

SUMS = ("flights", "arrived", "delay")
KEYS = {
    "airplane_delays": ("tailnum", "year"),
    "route_delays": ("origin", "dest"),
    "courier_efficiency": ("carrier", "rain_from"),
}
Key = tuple[str, str]
Rows = dict[Key, tuple[int, int, int]]
States = Mapping[str, Iterable[Mapping[str, Any]]]
"""Operator -> the states of its key groups."""


def rows_of(states: States) -> dict[str, Rows]:
    """Return the rows of each table whose operator the job has."""
    tables: dict[str, Rows] = {}
    if "sum_by_airplane" in states:
        tables["airplane_delays"] = _nested(states["sum_by_airplane"])
    if "sum_by_route" in states:
        tables["route_delays"] = {
            _ends(route): _sums(sums)
            for state in states["sum_by_route"]
            for route, sums in state.items()
        }
    if "store" in states:
        tables["courier_efficiency"] = _nested(states["store"])
    return tables


def _nested(states: Iterable[Mapping[str, Any]]) -> Rows:
    return {
        (outer, inner): _sums(sums)
        for state in states
        for outer, inners in state.items()
        for inner, sums in inners.items()
    }


def _ends(route: str) -> Key:
    origin, _, dest = route.partition("-")
    return origin, dest


def _sums(values: Iterable[int]) -> tuple[int, int, int]:
    flights, arrived, delay = values
    return flights, arrived, delay


def write_results(path: Path, batch_id: int, tables: Mapping[str, Rows]) -> bool:
    """Replace the results by those of a batch; return False if those of a newer one are stored."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database, _transaction(database):
        database.execute("CREATE TABLE IF NOT EXISTS stored (batch_id INTEGER NOT NULL)")
        newest = database.execute("SELECT max(batch_id) FROM stored").fetchone()[0]
        if newest is not None and newest > batch_id:
            return False
        for table, rows in tables.items():
            _replace(database, table, rows)
        database.execute("DELETE FROM stored")
        database.execute("INSERT INTO stored VALUES (?)", (batch_id,))
    return True


def read_results(path: Path) -> tuple[int, dict[str, Rows]]:
    """Return the id of the stored batch, and its rows by table.

    Raises:
        NotFound: No results are stored.
    """
    if not path.is_file():
        raise NotFound(
            f"there are no results in {path}", value=str(path),
            remedy="run the job and let it stop: it stores its results then",
        )  # fmt: skip
    with closing(sqlite3.connect(path, isolation_level=None)) as database, _transaction(database):
        (batch_id,) = database.execute("SELECT batch_id FROM stored").fetchone()
        present = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        return batch_id, {
            table: {
                (row[0], row[1]): (row[2], row[3], row[4])
                for row in database.execute(f"SELECT * FROM {table}")  # noqa: S608 - our names
            }
            for table in KEYS
            if table in present
        }


def store_results(settings: Settings, job: StreamingJob) -> Path:
    """Write the results of a stopped job to its folder; return the file."""
    folder = job_folder(settings, job.job)
    states = {
        operator.id: list(read_states(settings, job.job, operator.id).values())
        for operator in job.operators
    }
    latest = DecisionLog(folder / "decisions").latest()
    path = folder / "results.sqlite"
    write_results(path, -1 if latest is None else latest.batch_id, rows_of(states))
    return path


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _replace(database: sqlite3.Connection, table: str, rows: Rows) -> None:
    keys = KEYS[table]
    columns = [f"{name} TEXT NOT NULL" for name in keys] + [f"{n} INTEGER NOT NULL" for n in SUMS]
    fields = ", ".join([*columns, f"PRIMARY KEY ({', '.join(keys)})"])
    database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({fields})")
    database.execute(f"DELETE FROM {table}")  # noqa: S608 - the names are ours
    database.executemany(
        f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)",  # noqa: S608
        (key + sums for key, sums in sorted(rows.items())),
    )
