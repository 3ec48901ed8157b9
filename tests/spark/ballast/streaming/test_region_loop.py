"""The whole loop for an ordered region, with its real parts and without Airflow.

Worker processes of different speed on loopback TCP -> windows in Delta -> condense -> solve ->
publish -> the running region takes the weights up -> measure compares promised and measured. The
tests check facts that hold on any machine; the speed of a region is measured by bench/weights.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Head, Outcome
from ballast.contracts.regions import weighted, weights_of
from ballast.contracts.settings import Settings
from ballast.store.plans import read_acks, read_outcomes, read_plan, read_weights
from ballast.store.snapshots import newest_snapshot
from ballast.store.tables import append, read_rows
from ballast.streaming.region import OrderedRegion, PlanFollower, RegionSettings, WindowWriter
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.outcome.plan_measurement import measure_plan
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.snapshot.run_context import SnapshotRequest
from spark_jobs.snapshot.take_snapshot import condense
from tests.support.limits import limit_s
from tests.support.metrics import write_windows
from tests.support.policies import small_policy

JOB, REGION = "probe", "tag"
WINDOWS = 4
POLICY = small_policy(
    JOB, window_s=2, statistics_period_s=2 * WINDOWS, regions=[{"id": REGION, "workers": 3}]
)
SLOW_S, FAST_S = 0.030, 0.003
"""Workers sleep, so that they need no core, and the first is the fastest also on a busy machine."""
RECORD_BYTES = 500


def slow_but_the_first(record: bytes) -> bytes:
    import multiprocessing

    first = multiprocessing.current_process().name == "worker-0"
    time.sleep(FAST_S if first else SLOW_S)
    return record


@contextmanager
def running(settings: Settings, policy: JobPolicy) -> Iterator[OrderedRegion]:
    """A region with a source that never ends, which follows plans and writes its windows."""
    follower = PlanFollower(settings, policy, REGION, every_s=0.2)
    writer = WindowWriter(settings, policy.job, REGION, lambda: follower.version)
    size = RegionSettings(window_s=policy.window_s, send_buffer=4096, receive_buffer=4096)
    with (
        writer,
        OrderedRegion(
            slow_but_the_first, follower.workers, settings=size, on_window=writer
        ) as region,
        follower.following(region),
    ):
        records = (number.to_bytes(RECORD_BYTES) for number in itertools.count())
        out_of_order: list[int] = []

        def consume() -> None:
            for number, result in enumerate(region.run(records)):
                if int.from_bytes(result) != number:
                    out_of_order.append(number)

        thread = threading.Thread(target=consume, daemon=True)
        thread.start()
        yield region
        region.stop()
        thread.join(limit_s(10))
        assert not thread.is_alive()
        assert region.merged > 0
        assert out_of_order == [], "results come in the order of the records, none twice or never"


def ends_of(settings: Settings, version: int) -> list[datetime]:
    """Ends of the region's windows under a version, without the first, which may be mixed."""
    rows = read_rows(settings, "metrics.connections", job=JOB).to_pylist()
    return sorted({r["window_end_at"] for r in rows if r["plan_version"] == version})[1:]


def has_period(ends: list[datetime], windows: int) -> bool:
    """Whether the newest windows have no gap."""
    newest = ends[-windows:]
    length = timedelta(seconds=POLICY.window_s)
    return len(newest) == windows and newest[-1] - newest[0] == (windows - 1) * length


def wait_for(until: Callable[[], bool]) -> None:
    end = time.monotonic() + limit_s(60)
    while not until():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.2)


def keyed_windows(settings: Settings, end: datetime, version: int) -> None:
    """Windows of the job's keyed operators up to a time."""
    begin = end - timedelta(seconds=WINDOWS * POLICY.window_s)
    write_windows(settings, POLICY, begin, WINDOWS, plan_version=version)


def acknowledged(settings: Settings, head: Head) -> None:
    """Acknowledge the plan for the keyed operators too; it moves nothing there."""
    row = {
        "job": JOB, "version": head.version, "plan_id": head.plan_id, "status": "applied",
        "batch_id": 0, "reason": "", "moved_key_groups": 0, "bytes_moved": 0, "pause_ms": 0.0,
        "acked_at": datetime.now(UTC),
    }  # fmt: skip
    append(settings, "plans.acks", [row])


def test_weights_come_from_measured_windows_and_a_running_region_takes_them_up(
    settings: Settings, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ballast.progress")
    with running(settings, POLICY) as region:
        assert region.weights == [334, 333, 333]
        wait_for(lambda: has_period(ends_of(settings, 0), WINDOWS))
        end = ends_of(settings, 0)[-1]
        keyed_windows(settings, end, version=0)
        request = SnapshotRequest(POLICY, "run-1", end + timedelta(seconds=1))
        condense(settings, request, lambda: nullcontext(spark))
        snapshot = newest_snapshot(settings, JOB)
        assert snapshot is not None
        assert snapshot.rejected_rows == 0
        draft_plan(settings, JOB, "run-1", SolveOptions(solver_seconds=0.5))
        head = publish_plan(settings, JOB, "run-1")
        assert head is not None
        acknowledged(settings, head)
        weights = weights_of(weighted(read_weights(settings, JOB, head.plan_id)), REGION)
        wait_for(lambda: region.weights == list(weights.values()))
        wait_for(lambda: has_period(ends_of(settings, 1), WINDOWS))
        end = ends_of(settings, 1)[-1]
        keyed_windows(settings, end, version=1)
        measure_plan(settings, JOB, "run-2", lambda: nullcontext(spark), end + timedelta(seconds=1))
        spark.catalog.clearCache()
    fast = weights.pop("worker-0")
    assert fast > 334, "the faster worker gets more than an even share"
    assert fast > max(weights.values())
    assert [ack.status for ack in read_acks(settings, JOB, 1, REGION)] == ["applied"]
    assert "weights: region tag" in caplog.text
    assert read_plan(settings, JOB, head.plan_id).status != "unchanged"
    _check_outcome({row.figure: row for row in read_outcomes(settings, JOB, 1)}, caplog.text)


def _check_outcome(figures: dict[str, Outcome], printed: str) -> None:
    capacity = figures[f"capacity_records_per_s/{REGION}"]
    assert capacity.promised is not None
    assert capacity.before is not None
    assert capacity.promised > capacity.before
    assert capacity.measured > 0
    assert figures[f"done_records_per_s/{REGION}"].measured > 0
    assert f"capacity_records_per_s/{REGION}: promised" in printed
