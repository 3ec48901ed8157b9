"""Read Delta tables with Spark, append frames to them, and retry after conflicts."""

from __future__ import annotations

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

# They share no parent class in Python, so each is listed.
CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)

Returned = TypeVar("Returned")


def read_table(
    spark: SparkSession, settings: Settings, name: str, version: int | None = None
) -> DataFrame:
    """The newest version of a table, or the one given."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(settings.table_uri(name))


def append_frame_once(frame: DataFrame, settings: Settings, name: str, write_id: str) -> None:
    """Append the rows unless there was a write with this id: a retried task adds nothing.

    The rows of a stage are few, so they are collected and committed through delta-rs, which takes
    milliseconds instead of seconds (ADR 9). Each write has its own application id with
    version 1: Delta would drop a lower version under a shared id silently.
    """
    rows = frame.select(*TABLES[name].column_names).toArrow()
    store.append_once(settings, name, rows, app_id=f"{name}:{write_id}", app_version=1)


def retry_on_conflict(action: Callable[[], Returned]) -> Returned:
    """Run an action of Spark, and again after a conflict with a concurrent commit."""
    return store.retry_on_commit_conflict(action, lambda error: isinstance(error, CONFLICTS))
