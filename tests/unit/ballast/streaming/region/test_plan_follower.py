"""A region follows the weights of the plan in force, and writes its windows exactly once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput, PlanRefused
from ballast.contracts.regions import RegionPolicy
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_acks
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append_once, read_rows
from ballast.streaming.region import (
    OrderedRegion,
    PlanFollower,
    RegionMeasurement,
    RegionSettings,
    WindowWriter,
)
from ballast.streaming.region.plan_follower import fitting_weights
from ballast.streaming.region.weights import near
from tests.support.policies import small_policy
from tests.support.streaming_plans import publish
from tests.unit.ballast.streaming.region import works

JOB, REGION = "probe", "tag"
POLICY = small_policy(JOB, regions=[{"id": REGION, "workers": 2, "local_change_units": 100}])


SIZE = RegionSettings(window_s=POLICY.window_s)


class FakeRegion:
    """Stores the weights that it gets; their effect on a region is tested in test_region."""

    def __init__(self, names: Sequence[str] = ("worker-0", "worker-1")) -> None:
        self.connection_ids = tuple(names)
        self.settings = SIZE
        self.given: list[list[int]] = []

    def set_weights(self, weights: Sequence[int]) -> None:
        self.given.append(list(weights))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    ensure_tables(settings, [
        "plans.assignments", "plans.routes", "plans.scaling", "plans.weights", "plans.heads",
        "plans.acks", "metrics.connections",
    ])  # fmt: skip
    return settings


def put(settings: Settings, version: int, weights: dict[str, int], **more: Any) -> str:
    return publish(
        settings, POLICY, version, lambda *_: "node-0",
        weights=[(REGION, worker, units) for worker, units in weights.items()], **more,
    )  # fmt: skip


def acks(settings: Settings, version: int) -> list[tuple[str, str]]:
    rows = read_acks(settings, JOB, version, REGION)
    return [(row.status, row.reason) for row in rows]


def window(end: float, weights: Sequence[int] = (500, 500), alive: Sequence[bool] = (True, True)):
    counts = np.array([5, 5])
    times = np.array([0.1, 0.2])
    return RegionMeasurement(
        ("worker-0", "worker-1"), end - 5.0, end, counts, times, counts, times,
        np.array(weights), np.array(alive),
    )  # fmt: skip


def test_weights_in_force_are_taken_up_once_and_acknowledged(settings: Settings) -> None:
    put(settings, 1, {"worker-0": 700, "worker-1": 300})
    follower, region = PlanFollower(settings, POLICY, REGION), FakeRegion()
    follower.check(region)
    follower.check(region)
    assert region.given == [[700, 300]]
    assert follower.version == 1
    assert acks(settings, 1) == [("applied", "")]
    assert read_acks(settings, JOB, 1) == [], "the job's operators have not said anything"
    put(settings, 2, {"worker-0": 600, "worker-1": 400})
    follower.check(region)
    assert region.given[-1] == [600, 400]
    assert acks(settings, 2) == [("applied", "")]


def test_a_region_that_starts_again_says_nothing_twice(settings: Settings) -> None:
    put(settings, 1, {"worker-0": 700, "worker-1": 300})
    for _ in range(2):
        region = FakeRegion()
        PlanFollower(settings, POLICY, REGION).check(region)
        assert region.given == [[700, 300]]
    assert acks(settings, 1) == [("applied", "")]


def test_a_region_that_took_back_a_refusal_has_the_last_word(settings: Settings) -> None:
    put(settings, 1, {"worker-0": 700, "worker-1": 300})
    other = small_policy(JOB, regions=[{"id": REGION, "workers": 3}])
    for policy in (POLICY, other, POLICY, POLICY):
        PlanFollower(settings, policy, REGION).check(FakeRegion())
    assert [status for status, _ in acks(settings, 1)] == ["applied", "refused", "applied"]


def test_a_plan_without_weights_leaves_the_region_as_it_is(settings: Settings) -> None:
    put(settings, 1, {})
    follower, region = PlanFollower(settings, POLICY, REGION), FakeRegion()
    follower.check(region)
    assert region.given == []
    assert follower.version == 1
    assert acks(settings, 1) == [("applied", "")]


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ({"worker-0": 700, "worker-1": 200}, "add up to 900"),
        ({"worker-0": 700, "worker-9": 300}, "worker-9"),
        ({"worker-0": 1000}, "leaves some out"),
    ],
)
def test_weights_that_do_not_fit_are_refused_with_the_reason_and_the_old_ones_stay(
    settings: Settings, weights: dict[str, int], why: str
) -> None:
    put(settings, 1, {"worker-0": 700, "worker-1": 300})
    follower, region = PlanFollower(settings, POLICY, REGION), FakeRegion()
    follower.check(region)
    put(settings, 2, weights)
    follower.check(region)
    follower.check(region)
    assert region.given == [[700, 300]]
    assert follower.version == 1
    ((status, reason),) = acks(settings, 2)
    assert status == "refused"
    assert why in reason


def test_rows_that_are_not_what_was_published_are_refused(settings: Settings) -> None:
    put(settings, 1, {"worker-0": 700, "worker-1": 300}, hash_of_weights=())
    follower, region = PlanFollower(settings, POLICY, REGION), FakeRegion()
    follower.check(region)
    assert region.given == []
    ((status, reason),) = acks(settings, 1)
    assert status == "refused"
    assert "content hash" in reason


def test_tables_that_cannot_be_read_leave_the_weights(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(settings, 1, {"worker-0": 700, "worker-1": 300})
    follower, region = PlanFollower(settings, POLICY, REGION), FakeRegion()

    def broken(*_: Any) -> Any:
        raise OSError("storage is gone")

    with monkeypatch.context() as gone:
        gone.setattr("ballast.store.plan_content.read_assignment", broken)
        follower.check(region)
    assert region.given == []
    assert "storage is gone" in caplog.text
    follower.check(region)
    assert region.given == [[700, 300]]


def test_workers_other_than_the_policys_and_unknown_regions_are_refused(settings: Settings) -> None:
    with pytest.raises(InvalidInput, match="no region 'other'"):
        PlanFollower(settings, POLICY, "other")
    follower = PlanFollower(settings, POLICY, REGION)
    with (
        pytest.raises(InvalidInput, match="workers of the policy"),
        follower.following(FakeRegion(["a", "b"])),
    ):
        pass


def test_windows_of_another_length_than_the_policys_are_refused(settings: Settings) -> None:
    region = FakeRegion()
    region.settings = RegionSettings(window_s=7.0)
    follower = PlanFollower(settings, POLICY, REGION)
    with pytest.raises(InvalidInput, match="windows of 7 s"), follower.following(region):
        pass


def test_a_worker_that_is_killed_has_rows_that_say_so(settings: Settings) -> None:
    policy = small_policy(
        JOB, window_s=0.5, statistics_period_s=1, regions=[{"id": REGION, "workers": 3}]
    )
    follower = PlanFollower(settings, policy, REGION)
    writer = WindowWriter(settings, JOB, REGION, lambda: follower.version)

    def dead() -> list[dict[str, Any]]:
        rows = read_rows(settings, "metrics.connections", job=JOB).to_pylist()
        return [row for row in rows if row["state"] == "dead"]

    def records() -> Iterator[bytes]:
        until = time.monotonic() + 20
        while not dead() and time.monotonic() < until:
            yield b"0"
            time.sleep(0.05)

    size = RegionSettings(window_s=0.5)
    with (
        writer,
        OrderedRegion(works.who, follower.workers, settings=size, on_window=writer) as region,
        follower.following(region),
    ):
        results = region.run(records())
        next(results)
        os.kill(region.pids[1], signal.SIGKILL)
        for _ in results:
            pass
    rows = read_rows(settings, "metrics.connections", job=JOB).to_pylist()
    assert {row["worker_id"] for row in dead()} == {"worker-1"}
    end = dead()[-1]["window_end_at"]
    assert sum(row["weight"] for row in rows if row["window_end_at"] == end) == 1000


def test_a_local_loop_stays_near_the_plan(settings: Settings) -> None:
    wanted: list[int] | None = [950, 50]
    follower = PlanFollower(settings, POLICY, REGION)
    control = follower.bounded(lambda _: wanted)
    assert control(window(5.0)) == [950, 50], "no plan yet: the loop is free"
    put(settings, 1, {"worker-0": 700, "worker-1": 300})
    follower.check(FakeRegion())
    assert control(window(5.0)) == [800, 200]
    wanted = [720, 280]
    assert control(window(5.0)) == [720, 280]
    wanted = None
    assert control(window(5.0)) is None
    wanted = [720, 300]
    with pytest.raises(InvalidInput, match="add up to 1020"):
        control(window(5.0))


def test_near_keeps_the_sum_and_the_reach() -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        n = int(random.integers(1, 9))
        middle, wanted = (random.multinomial(1000, random.dirichlet([0.5] * n)) for _ in range(2))
        reach = int(random.integers(0, 1001))
        units = near(wanted.tolist(), middle.tolist(), reach)
        assert sum(units) == 1000
        assert all(abs(u - m) <= reach and u >= 0 for u, m in zip(units, middle, strict=True))
        if (np.abs(wanted - middle) <= reach).all():
            assert units == wanted.tolist()


def test_fitting_weights_come_in_the_order_of_the_workers() -> None:
    region = RegionPolicy(id=REGION, workers=["b", "a"])
    assert fitting_weights(region, [(REGION, "a", 1), (REGION, "b", 999)]) == [999, 1]
    assert fitting_weights(region, [("other", "a", 1)]) is None
    with pytest.raises(PlanRefused, match="add up to"):
        fitting_weights(region, [(REGION, "a", -1), (REGION, "b", 1001)])


def test_a_running_region_takes_weights_up_and_writes_its_windows(settings: Settings) -> None:
    put(settings, 1, {"worker-0": 700, "worker-1": 300})
    follower = PlanFollower(settings, POLICY, REGION, every_s=0.05)
    with (
        OrderedRegion(works.who, follower.workers, settings=SIZE) as region,
        follower.following(region),
        WindowWriter(settings, JOB, REGION, lambda: follower.version) as writer,
    ):
        assert region.weights == [700, 300]
        put(settings, 2, {"worker-0": 100, "worker-1": 900})
        _wait(lambda: follower.version == 2)
        assert region.weights == [100, 900]
        writer(window(100.0))
        writer(window(105.0, alive=(True, False)))
    rows = read_rows(settings, "metrics.connections", job=JOB).to_pylist()
    assert len(rows) == 4
    assert {row["plan_version"] for row in rows} == {2}
    assert [r["worker_id"] for r in rows if r["state"] == "dead"] == ["worker-1"]


def _wait(until: Callable[[], bool]) -> None:
    ready = threading.Event()
    for _ in range(200):
        if until():
            return
        ready.wait(0.05)
    raise AssertionError("it did not come to that within 10 s")


def test_a_window_is_written_once_and_waits_while_the_table_is_away(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = iter([True, False, False, False, False, False])

    def sometimes(*arguments: Any, **named: Any) -> bool:
        if next(fails):
            raise OSError("storage is gone")
        return append_once(*arguments, **named)

    monkeypatch.setattr("ballast.streaming.region.metrics_writer.append_once", sometimes)
    with WindowWriter(settings, JOB, REGION, lambda: 0) as writer:
        writer(window(100.0))
        writer(window(105.0))
    with WindowWriter(settings, JOB, REGION, lambda: 0) as again:
        again(window(105.0))
        again(window(110.0))
    rows = read_rows(settings, "metrics.connections", job=JOB).to_pylist()
    ends = sorted(row["window_end_at"].timestamp() for row in rows)
    assert ends == [100.0, 100.0, 105.0, 105.0, 110.0, 110.0]
