"""The one place that changes plans.heads: compare-and-set on the version, and who won.

The change is a MERGE (docs/adr/0007). Who holds the head is then read through delta-rs from what
is on storage, never from what this process's own session believes it wrote.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.plans import Head, read_head
from ballast.store.tables import open_table, table_exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HEADS = "plans.heads"
METADATA_CONF = "spark.databricks.delta.commitInfo.userMetadata"
CHANGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated")


@dataclass(frozen=True)
class Commit:
    """What a head's commit says of itself in the table's history."""

    job: str
    version: int
    plan_id: str
    run_id: str

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def commit_of(head: Head) -> Commit:
    """How the commit that brought this head is marked."""
    return Commit(head.job, head.version, head.plan_id, head.run_id)


def is_same(found: Head | None, wanted: Head) -> bool:
    """Whether the head is the very one that was wanted; the time it came into force aside."""
    return found is not None and commit_of(found) == commit_of(wanted)


def compare_and_set(spark: SparkSession, settings: Settings, wanted: Head) -> Head | None:
    """Put ``wanted`` in force if the version before it is; returns the head that is then there."""
    from spark_jobs.tables import on_conflict_again

    with head_lock(settings):
        on_conflict_again(lambda: _merge_unless_moved(spark, settings, wanted))
    return read_head(settings, wanted.job)


def when_in_force(settings: Settings, wanted: Head) -> datetime | None:
    """When a commit of the table's history put ``wanted`` in force; None if none did."""
    if not table_exists(settings, HEADS):
        return None
    mark = commit_of(wanted).to_json()
    for entry in open_table(settings, HEADS).history():
        if entry.get("userMetadata") == mark and _changed_a_row(entry):
            return datetime.fromtimestamp(entry["timestamp"] / 1000, UTC)
    return None


@contextmanager
def head_lock(settings: Settings) -> Iterator[None]:
    """Keep other processes of this machine away from the table's log while it is changed.

    On local files a commit is a look whether the file is there and then a rename; two processes
    can both come past the look. The kernel lets the lock go when its holder dies. An object
    store's log store commits in one step and has no file to lock.
    """
    if not settings.is_local():
        yield
        return
    path = Path(settings.table_uri(HEADS)).parent / ".heads.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _merge_unless_moved(spark: SparkSession, settings: Settings, wanted: Head) -> None:
    """MERGE, but not when the head is known to have moved: that would add an empty commit."""
    head = read_head(settings, wanted.job)
    if (head.version if head else 0) != wanted.version - 1:
        return
    spark.conf.set(METADATA_CONF, commit_of(wanted).to_json())
    try:
        _merge(spark, settings, wanted)
    finally:
        spark.conf.unset(METADATA_CONF)


def _merge(spark: SparkSession, settings: Settings, wanted: Head) -> None:
    from delta import DeltaTable

    columns = TABLES[HEADS].column_names
    # The job stands in the condition as text, so that Delta sees that one partition alone is
    # read: publishes of other jobs do not conflict. A job name cannot hold a quote.
    (
        DeltaTable.forPath(spark, settings.table_uri(HEADS))
        .alias("head")
        .merge(
            _one_row(spark, wanted).alias("wanted"),
            f"head.job = '{wanted.job}' AND head.job = wanted.job",
        )
        .whenMatchedUpdate(
            condition="head.version = wanted.version - 1",
            set={column: f"wanted.{column}" for column in columns if column != "job"},
        )
        .whenNotMatchedInsert(
            condition="wanted.version = 1",
            values={column: f"wanted.{column}" for column in columns},
        )
        .execute()
    )


def _one_row(spark: SparkSession, head: Head) -> DataFrame:
    """The wanted row as literals, which Delta need not first copy aside as it would an RDD."""
    from pyspark.sql import functions as sf

    values = asdict(head)
    return spark.range(1, numPartitions=1).select(
        *(sf.lit(values[column]).alias(column) for column in TABLES[HEADS].column_names)
    )


def _changed_a_row(entry: dict[str, Any]) -> bool:
    """A MERGE that found another version still commits, with our mark and no row changed."""
    metrics = entry.get("operationMetrics", {})
    return any(int(metrics.get(name, 0)) > 0 for name in CHANGED_ROWS)
