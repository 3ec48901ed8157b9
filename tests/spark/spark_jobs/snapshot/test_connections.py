"""Connections of ordered regions: good rows of the period, rejected rows, messages about
silence."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from ballast.store.tables import append, read_rows
from tests.spark.spark_jobs.snapshot.conftest import Condense
from tests.support.metrics import START, write_windows
from tests.support.policies import small_policy
from tests.support.regions import connection_rows

WINDOWS = 6
POLICY = small_policy(regions=[{"id": "tag", "workers": 3}, {"id": "quiet", "workers": ["a", "b"]}])
RATES = {"worker-0": 100.0, "worker-1": 50.0}


@pytest.fixture(scope="module")
def story(make_settings: Callable[[], Settings], take: Condense) -> tuple[Settings, Snapshot, str]:
    """worker-2 has no row in the period, and region quiet has stopped before it."""
    settings = make_settings()
    end = write_windows(settings, POLICY, START, WINDOWS)
    good = connection_rows(POLICY, "tag", end, RATES, windows=WINDOWS + 2, dead=("worker-1",))
    newest = good[-2]
    bad = [
        newest | {"worker_id": "worker-9"},
        newest | {"worker_id": "a"},
        newest | {"region_id": "nobody"},
        newest | {"worker_id": "worker-2", "busy_ms": math.nan},
        newest | {"worker_id": "worker-2", "busy_ms": 60_000.0},
        newest | {"worker_id": "worker-2", "weight": 1001},
        newest | {"worker_id": "worker-2", "state": "asleep"},
        newest | {"worker_id": "worker-2", "done": -1},
        newest | {"emitted_at": newest["emitted_at"] - timedelta(seconds=1), "done": 7},
    ]
    before = START - timedelta(seconds=60)
    old = connection_rows(POLICY, "quiet", before, {"a": 1.0, "b": 1.0})
    append(settings, "metrics.connections", [*good, *bad, *old])
    records: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.getMessage())

    logger, handler = logging.getLogger("ballast.progress"), Keep()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        snapshot = take(settings, POLICY, "run-1", end)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return settings, snapshot, "\n".join(records)


def test_good_windows_of_the_period_are_kept_as_they_were(story: Any) -> None:
    settings, snapshot, _ = story
    where = [("snapshot_id", "=", snapshot.snapshot_id)]
    rows = read_rows(settings, "snapshots.connections", job="probe", where=where).to_pylist()
    assert len(rows) == 2 * WINDOWS
    assert {(r["region_id"], r["worker_id"], r["state"]) for r in rows} == {
        ("tag", "worker-0", "alive"), ("tag", "worker-1", "dead"),
    }  # fmt: skip
    assert {r["done"] for r in rows if r["worker_id"] == "worker-0"} == {500}
    assert snapshot.connections_table_version is not None


def test_bad_rows_are_set_aside_with_their_reasons(story: Any) -> None:
    settings, snapshot, _ = story
    rejected = read_rows(settings, "metrics.rejected", job="probe").to_pylist()
    reasons = [reason for row in rejected for reason in row["reasons"]]
    assert {row["table_name"] for row in rejected} == {"metrics.connections"}
    assert len(rejected) == 9
    assert reasons.count("unknown worker in worker_id") == 2
    assert "unknown region in region_id" in reasons
    assert "busy or blocked for longer than the window" in reasons
    assert any("busy_ms is NaN" in reason for reason in reasons)
    assert snapshot.rejected_rows == 9


def test_a_silent_region_and_a_silent_worker_are_named_and_stop_nothing(story: Any) -> None:
    _, snapshot, printed = story
    assert snapshot.windows == WINDOWS
    assert "region quiet is silent since 2026-11-16T11:59:00Z: its weights stay" in printed
    assert "region tag: worker-2 not measured in the period" in printed
