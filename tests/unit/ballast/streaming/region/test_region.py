"""A real ordered region: worker processes on loopback TCP [MW16-REGIONS, 3-4]."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ballast.contracts.errors import InvalidInput
from ballast.contracts.tables import TABLES
from ballast.streaming.region import OrderedRegion, RegionFailed, RegionMeasurement, RegionSettings
from ballast.streaming.region.metrics_writer import connection_rows
from tests.support.limits import limit_s
from tests.unit.ballast.streaming.region import works

SMALL = RegionSettings(send_buffer=4096, receive_buffer=2048)
RECORD = bytes(1000)


def numbers(count: int) -> list[bytes]:
    return [str(n).encode() for n in range(count)]


def workers_of(results: list[bytes]) -> Counter[str]:
    return Counter(r.decode(errors="replace").partition(":")[0] for r in results)


def test_results_come_out_in_the_order_of_the_records_and_each_once() -> None:
    with OrderedRegion(works.uneven, 4) as region:
        assert list(region.run(numbers(300))) == numbers(300)


def test_records_are_spread_by_the_weights_handed_in() -> None:
    with OrderedRegion(works.who, 3, weights=[700, 250, 50]) as region:
        found = workers_of(list(region.run(numbers(1000))))
    assert found == {"worker-0": 700, "worker-1": 250, "worker-2": 50}


def test_weights_can_change_while_records_flow() -> None:
    with OrderedRegion(works.who, 2, weights=[1000, 0]) as region:
        ask = threading.Event()

        def source() -> Iterator[bytes]:
            yield from numbers(100)
            assert ask.wait(10)
            region.set_weights([0, 1000])
            yield from numbers(100)

        results = []
        for result in region.run(source()):
            results.append(result)
            if len(results) == 100:
                ask.set()
    assert workers_of(results[:100]) == {"worker-0": 100}
    assert workers_of(results[100:]) == {"worker-1": 100}


def test_without_records_nothing_comes_out() -> None:
    with OrderedRegion(works.shout, 2) as region:
        assert list(region.run([])) == []


def periods_of_a_slow_first(workers: int, records: int) -> list[RegionMeasurement]:
    seen: list[RegionMeasurement] = []
    settings = replace(SMALL, control_s=0.1)
    with OrderedRegion(works.slow_first, workers, settings=settings, control=seen.append) as region:
        assert len(list(region.run([RECORD] * records))) == records
    return seen


def test_most_time_blocked_is_that_of_the_slow_connection() -> None:
    seen = periods_of_a_slow_first(workers=3, records=240)
    blocked = np.sum([w.blocked_s for w in seen], axis=0)
    assert blocked.argmax() == 0
    assert blocked[0] > 0
    # Round robin: all connections get the same number of records, slow ones included (4.3).
    sent = np.sum([w.sent for w in seen], axis=0)
    assert sent.max() - sent.min() <= 3


def test_busy_time_is_at_least_the_work_and_at_most_the_time_that_passed() -> None:
    seen = periods_of_a_slow_first(workers=2, records=160)
    done = np.sum([w.done for w in seen], axis=0)
    busy_s = np.sum([w.busy_s for w in seen], axis=0)
    # A busy machine only makes the work take longer, so this holds on any.
    assert busy_s[0] >= 0.95 * done[0] * works.SLOW_S
    assert (busy_s <= 1.05 * (seen[-1].end - seen[0].start)).all()
    assert busy_s.argmax() == 0


def test_re_routing_goes_round_a_connection_that_blocks() -> None:
    settings = replace(SMALL, reroute=True)
    with OrderedRegion(works.slow_first, 3, settings=settings) as region:
        found = workers_of(list(region.run([RECORD] * 300)))
    assert sum(found.values()) == 300
    assert found["worker-0"] < 100, "an even share"


def test_no_more_than_so_many_records_are_under_way() -> None:
    taken = 0

    def source() -> Iterator[bytes]:
        nonlocal taken
        for record in numbers(60):
            taken += 1
            yield record

    settings = RegionSettings(max_in_flight=5)
    with OrderedRegion(works.shout, 2, settings=settings) as region:
        results = region.run(source())
        for number, _ in enumerate(results):
            if number == 3:
                # All results have arrived and are not read: no further record may be sent.
                time.sleep(0.2)
            # The record that comes out, those in flight, and the one that waits for room.
            assert taken <= number + 1 + 5 + 1


def test_waiting_for_room_is_charged_to_who_holds_up_the_merge() -> None:
    seen: list[RegionMeasurement] = []
    settings = RegionSettings(max_in_flight=4, control_s=0.1)
    with OrderedRegion(works.slow_first, 3, settings=settings, control=seen.append) as region:
        list(region.run([b"x"] * 300))
    blocked = np.sum([w.blocked_s for w in seen], axis=0)
    assert blocked.argmax() == 0
    assert blocked[0] > 0


def test_a_local_loop_sets_the_weights_of_the_next_period() -> None:
    asked: list[RegionMeasurement] = []

    def loop(window: RegionMeasurement) -> list[int]:
        asked.append(window)
        return [100, 900]

    settings = RegionSettings(control_s=0.05)
    with OrderedRegion(works.who, 2, settings=settings, control=loop) as region:
        results = list(region.run(_until(lambda: len(asked) >= 2, then=50)))
        assert region.weights == [100, 900]
    assert workers_of(results)["worker-1"] > workers_of(results)["worker-0"]
    assert asked[0].weights.tolist() == [500, 500]
    assert asked[1].weights.tolist() == [100, 900]


def _until(is_over: object, then: int = 0) -> Iterator[bytes]:
    """Records until something is over, and so many after it."""
    deadline = time.monotonic() + limit_s(5)
    while not is_over():  # type: ignore[operator]
        assert time.monotonic() < deadline
        yield b"x"
    yield from [b"x"] * then


@pytest.mark.parametrize("answer", [[1, 2], [1000], [1500, -500]])
def test_a_local_loop_that_answers_nonsense_leaves_the_weights(
    answer: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def loop(window: RegionMeasurement) -> list[int]:
        calls.append(window)
        return answer

    settings = RegionSettings(control_s=0.02)
    with OrderedRegion(works.shout, 2, settings=settings, control=loop) as region:
        list(region.run(_until(lambda: len(calls) >= 2)))
        assert region.weights == [500, 500]
    assert "the weights are unchanged" in caplog.text


def test_windows_become_rows_of_the_metrics_and_follow_each_other() -> None:
    seen: list[RegionMeasurement] = []
    settings = RegionSettings(window_s=0.1, control_s=0.05)
    with OrderedRegion(works.who, 2, settings=settings, on_window=seen.append) as region:
        list(region.run(_until(lambda: len(seen) >= 3)))
    for before, after in itertools.pairwise(seen):
        assert after.start >= before.end - 1e-6
    row = connection_rows(seen[0], "words", "tag", 4)[0]
    assert set(row) == set(TABLES["metrics.connections"].column_names)
    assert (row["job"], row["region_id"], row["worker_id"]) == ("words", "tag", "worker-0")
    assert row["weight"] == 500
    assert row["window_end_at"] > row["window_start_at"]


def test_a_clock_that_goes_back_makes_no_time_negative_and_no_window_twice() -> None:
    reads = 0

    def jumpy() -> float:
        nonlocal reads
        reads += 1
        return time.monotonic() - 3600 * (reads // 20)

    seen: list[RegionMeasurement] = []
    looks: list[RegionMeasurement] = []
    settings = replace(SMALL, window_s=0.1, control_s=0.05, read_clock=jumpy)
    with OrderedRegion(
        works.slow_first,
        2,
        settings=settings,
        control=looks.append,
        on_window=seen.append,
    ) as region:
        assert len(list(region.run([RECORD] * 100))) == 100
    for window in [*seen, *looks]:
        assert (window.blocked_s >= 0).all()
        assert (window.busy_s >= 0).all()
        assert window.seconds >= 0
    starts = [w.start for w in seen]
    assert starts == sorted(set(starts))


# What goes wrong


def test_work_that_raises_ends_the_region_with_the_record_and_the_reason() -> None:
    with (
        OrderedRegion(works.refuse_seven, 2) as region,
        pytest.raises(
            RegionFailed, match=r"(?s)record 7 in worker-\d.*seven is not allowed"
        ) as error,
    ):
        list(region.run(numbers(20)))
    assert "Traceback" in str(error.value)


def test_a_record_that_kills_every_worker_is_named_before_all_are_dead() -> None:
    settings = RegionSettings(max_deaths=2)
    with (
        OrderedRegion(works.die_of_seven, 4, settings=settings) as region,
        pytest.raises(RegionFailed, match="2 workers died while they processed record 7"),
    ):
        list(region.run(numbers(40)))


def test_a_source_that_fails_fails_the_region() -> None:
    def source() -> Iterator[bytes]:
        yield b"a"
        raise RuntimeError("the source is gone")

    with (
        OrderedRegion(works.shout, 2) as region,
        pytest.raises(RuntimeError, match="the source is gone"),
    ):
        list(region.run(source()))


@pytest.mark.parametrize("weights", [[500, 499], [1001, -1], [1000], [0.5, 999.5]])
def test_weights_that_do_not_sum_or_fit_are_refused(weights: list[int]) -> None:
    with pytest.raises(InvalidInput):
        OrderedRegion(works.shout, 2, weights=weights)


def test_refused_weights_leave_the_old_ones_in_force() -> None:
    with OrderedRegion(works.shout, 2) as region:
        with pytest.raises(InvalidInput, match="add up to 900") as error:
            region.set_weights([400, 500])
        assert error.value.value == [400, 500]
        assert region.weights == [500, 500]


def test_stop_ends_a_run_whose_records_never_come_back() -> None:
    with OrderedRegion(works.never, 1) as region:
        threading.Timer(0.2, region.stop).start()
        assert list(region.run([b"a"])) == []
        pid = region.pids[0]
    # No process of it is left.
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "broken", [{"send_buffer": 0}, {"control_s": 0}, {"max_in_flight": 0}, {"window_s": -1}]
)
def test_settings_that_cannot_be_are_refused(broken: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        RegionSettings(**broken)  # type: ignore[arg-type]
