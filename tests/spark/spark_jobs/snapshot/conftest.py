"""``condense`` called by a test in this process, on the Spark session of the tests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime

import pytest
from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.take_snapshot import condense

Condense = Callable[[Settings, JobPolicy, str, datetime], Snapshot]


@pytest.fixture(scope="session")
def take(spark: SparkSession) -> Condense:
    """``take(settings, policy, run_id, as_of)`` returns the run's snapshot row."""

    def take(settings: Settings, policy: JobPolicy, run_id: str, as_of: datetime) -> Snapshot:
        try:
            return condense(
                settings, SnapshotRequest(policy, run_id, as_of), lambda: nullcontext(spark)
            )
        finally:
            # The program would stop its session; this one is not stopped.
            spark.catalog.clearCache()

    return take
