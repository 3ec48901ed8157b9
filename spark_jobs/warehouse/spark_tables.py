"""Read and append to the tables from Spark: the one edge where pipeline jobs meet Delta."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from pyspark.sql import DataFrame, SparkSession

from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store import tables as store

# They share no parent class in Python, so each is named.
CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
ATTEMPTS = 20

Returned = TypeVar("Returned")


def read_table(
    spark: SparkSession, settings: Settings, name: str, version: int | None = None
) -> DataFrame:
    """The table as it is now, or as it was at a version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(settings.table_uri(name))


def append_once(frame: DataFrame, settings: Settings, name: str, write_id: str) -> None:
    """Append the rows unless a write of this id has been made: a retried task adds nothing.

    What a stage hands on is small by design, so it is collected and committed through delta-rs in
    milliseconds instead of seconds (docs/adr/0009). One application id a write, with the only
    version 1: a lower version under a shared id would be dropped silently.
    """
    rows = frame.select(*TABLES[name].column_names).toArrow()
    store.append_once(settings, name, rows, app_id=f"{name}:{write_id}", app_version=1)


def on_conflict_again(action: Callable[[], Returned]) -> Returned:
    """Run the action again when a concurrent commit got in between."""
    for attempt in range(1, ATTEMPTS):
        try:
            return action()
        except CONFLICTS:
            time.sleep(0.05 * attempt)
    return action()
