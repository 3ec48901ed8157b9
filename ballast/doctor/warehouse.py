"""Checks of the warehouse: rights, a race of writers, and the clock of the store.

A scratch table is made beside the tables and removed again. No table of Ballast is touched.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.fs import DeltaStorageHandler

from ballast.contracts.settings import Settings
from ballast.doctor.clock import check_skew
from ballast.doctor.finding import Finding, failed, not_checked, ok, warning
from ballast.store.tables import address, store_options

WRITERS, ROUNDS = 4, 5
SCHEMA = pa.schema([("writer", pa.int64())])
FIRST_COMMIT = "_delta_log/00000000000000000000.json"
COMMIT, RACE, CLOCK = "warehouse", "atomic commit", "clock of the store"


@dataclass(frozen=True)
class CommitRace:
    """What writers saw that all tried to make the same commit."""

    won: int
    lost: int
    errors: tuple[str, ...] = ()
    """Errors other than that another writer was first."""


@dataclass(frozen=True)
class WarehouseProbe:
    """What happened to a scratch table."""

    place: str
    error: str = ""
    """Why the table could not be made, read or removed; empty if it could."""
    rounds: tuple[CommitRace, ...] = ()
    skew_s: float | None = None
    """How far the store's clock is ahead of this host's; None if the store does not tell."""


def check_warehouse(settings: Settings, clock: Callable[[], float] = time.time) -> list[Finding]:
    """Make a scratch table in the warehouse, race writers on it, and judge what happened.

    Args:
        settings: where the warehouse is.
        clock: seconds since 1970 of this host.
    """
    is_folder = "://" not in settings.warehouse
    if is_folder and not Path(settings.warehouse).exists():
        missing = warning(
            COMMIT, f"{settings.warehouse} is not there yet",
            "the first run makes it; if there should be tables, correct BALLAST_WAREHOUSE",
        )  # fmt: skip
        reason = "there is no warehouse yet"
        return [missing, not_checked(RACE, reason), not_checked(CLOCK, reason)]
    return judge(probe_warehouse(settings, clock))


def probe_warehouse(settings: Settings, clock: Callable[[], float] = time.time) -> WarehouseProbe:
    """Make a scratch table, race writers on it, and remove it."""
    name = f"doctor.scratch_{uuid.uuid4().hex}"
    uri, options = address(settings, name), store_options(settings)
    rounds: list[CommitRace] = []
    error, skew = "", None
    try:
        before = clock()
        DeltaTable.create(uri, schema=SCHEMA, storage_options=options)
        skew = _skew(uri, options, before, clock())
        rounds += [_race(uri, options) for _ in range(ROUNDS)]
    except Exception as caught:  # noqa: BLE001 - whatever the store says is what is reported
        error = _first_line(caught)
    try:
        _remove(uri, options)
    except Exception as caught:  # noqa: BLE001 - as above
        error = error or f"the scratch table {uri} cannot be removed: {_first_line(caught)}"
    return WarehouseProbe(settings.warehouse, error, tuple(rounds), skew)


def judge(probe: WarehouseProbe) -> list[Finding]:
    """What a probe says about rights, commits and the clock."""
    return [_judge_rights(probe), judge_race(probe.rounds), _judge_clock(probe)]


def judge_race(rounds: Sequence[CommitRace]) -> Finding:
    """Every round must have one winner; the others must be told that they lost."""
    if not rounds:
        return not_checked(RACE, "no scratch table could be made")
    errors = [error for each in rounds for error in each.errors]
    seen = f"{WRITERS} writers, {len(rounds)} rounds"
    if any(each.won > 1 for each in rounds):
        twice = sum(each.won > 1 for each in rounds)
        return failed(
            RACE, f"{seen}: in {twice} of them more than one writer made the same commit",
            "commits get lost here, and a plan with them: use a store that creates a file only if "
            "it is not there (S3 with conditional put), or a file system with atomic links",
        )  # fmt: skip
    if errors or any(each.won == 0 for each in rounds):
        cause = errors[0] if errors else "no writer made the commit"
        return failed(
            RACE, f"{seen}: {cause}",
            "allow conditional puts to the user of the store; without them writers of one table "
            "exclude each other by errors",
        )  # fmt: skip
    return ok(RACE, f"{seen}: one winner each")


def _judge_rights(probe: WarehouseProbe) -> Finding:
    if probe.error:
        return failed(
            COMMIT, f"{probe.place}: {probe.error}",
            "correct BALLAST_WAREHOUSE, the credentials, or the rights to read, write and delete",
        )  # fmt: skip
    return ok(COMMIT, f"{probe.place}: a table was made, written, read and removed")


def _judge_clock(probe: WarehouseProbe) -> Finding:
    if probe.skew_s is None:
        return not_checked(CLOCK, "the store did not say when it wrote a file")
    return check_skew(CLOCK, "the store", probe.skew_s)


def _race(uri: str, options: dict[str, str] | None) -> CommitRace:
    """Let writers that opened the same version commit at the same time."""
    start = threading.Barrier(WRITERS)
    results: list[str] = []

    def commit(writer: int) -> None:
        try:
            table = DeltaTable(uri, storage_options=options)
            start.wait()
            write_deltalake(
                table, pa.table({"writer": [writer]}, schema=SCHEMA), mode="append",
                commit_properties=CommitProperties(max_commit_retries=0),
            )  # fmt: skip
        except CommitFailedError:
            results.append("lost")
        except Exception as error:  # noqa: BLE001 - it is reported; a broken barrier frees others
            start.abort()
            results.append(_first_line(error))
        else:
            results.append("won")

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = tuple(result for result in results if result not in ("won", "lost"))
    return CommitRace(results.count("won"), results.count("lost"), errors)


def _skew(uri: str, options: dict[str, str] | None, before: float, after: float) -> float | None:
    """How far the time of a file that was written in between is outside of the two times."""
    info = DeltaStorageHandler(uri, options).get_file_info([FIRST_COMMIT])[0]
    written: int | None = info.mtime_ns
    if written is None or written < 0:
        return None
    at = written / 1e9
    # Stores tell whole seconds.
    return min(0.0, at + 1.0 - before) if at < before else max(0.0, at - after)


def _remove(uri: str, options: dict[str, str] | None) -> None:
    if "://" not in uri:
        folder = Path(uri)
        if folder.exists():
            shutil.rmtree(folder)
        if folder.parent.is_dir() and not any(folder.parent.iterdir()):
            folder.parent.rmdir()
        return
    DeltaStorageHandler(uri, options).delete_dir("")


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
