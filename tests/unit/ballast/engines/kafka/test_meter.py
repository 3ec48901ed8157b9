"""Windows of a member are aligned to the clock and say whether they are whole."""

from __future__ import annotations

from ballast.engines.kafka.meter import BatchUse, WindowMeter

USE = BatchUse(records=10, bytes=1000, cpu_ms=5.0, busy_ms=8.0)
FIRST, SECOND = ("orders", 0), ("orders", 1)


class Clock:
    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def meter_at(now: int, length: int = 1000) -> tuple[WindowMeter, Clock]:
    clock = Clock(now)
    meter = WindowMeter("node-0", "p", clock)
    meter.set_length(length)
    return meter, clock


def test_windows_start_at_multiples_of_their_length() -> None:
    meter, clock = meter_at(10_400)
    meter.hold([FIRST])
    clock.now = 12_100
    reports = meter.finished()
    assert [(report.start_ms, report.end_ms) for report in reports] == [
        (10_000, 11_000), (11_000, 12_000),
    ]  # fmt: skip


def test_the_window_in_which_measuring_begins_is_not_whole() -> None:
    meter, clock = meter_at(10_400)
    clock.now = 12_000
    assert [report.is_whole for report in meter.finished()] == [False, True]


def test_a_partition_is_whole_only_if_it_was_held_from_the_windows_start() -> None:
    meter, clock = meter_at(10_000)
    meter.hold([FIRST])
    clock.now = 11_500
    meter.hold([SECOND])
    clock.now = 13_000
    wholes = [{p.partition: p.is_whole for p in r.partitions} for r in meter.finished()]
    assert wholes == [{0: True}, {0: True, 1: False}, {0: True, 1: True}]


def test_a_batch_counts_in_the_window_in_which_it_ends() -> None:
    meter, clock = meter_at(10_000)
    meter.hold([FIRST])
    clock.now = 11_200
    meter.add(FIRST, USE)
    clock.now = 12_000
    assert [report.partitions[0].records for report in meter.finished()] == [0, 10]


def test_a_partition_that_was_given_up_is_not_reported() -> None:
    meter, clock = meter_at(10_000)
    meter.hold([FIRST, SECOND])
    meter.add(FIRST, USE)
    meter.release([FIRST])
    meter.add(FIRST, USE)
    clock.now = 11_000
    (report,) = meter.finished()
    assert [part.partition for part in report.partitions] == [1]


def test_a_partition_that_comes_back_within_a_window_is_not_whole() -> None:
    meter, clock = meter_at(10_000)
    meter.hold([FIRST])
    clock.now = 11_500
    meter.release([FIRST])
    meter.hold([FIRST])
    clock.now = 12_000
    assert [report.partitions[0].is_whole for report in meter.finished()] == [True, False]


def test_a_member_without_partitions_reports_too() -> None:
    meter, clock = meter_at(10_000)
    meter.beat()
    clock.now = 11_000
    (report,) = meter.finished()
    assert (report.heartbeats, report.partitions, report.is_whole) == (1, (), True)


def test_nothing_is_counted_before_the_length_of_windows_is_known() -> None:
    clock = Clock(10_000)
    meter = WindowMeter("node-0", "p", clock)
    meter.hold([FIRST])
    meter.add(FIRST, USE)
    clock.now = 20_500
    assert meter.finished() == []
    meter.set_length(1000)
    clock.now = 22_000
    first, second = meter.finished()
    assert (first.is_whole, first.partitions[0].is_whole, first.partitions[0].records) == (
        False, False, 0,
    )  # fmt: skip
    assert second.partitions[0].is_whole


def test_a_clock_that_steps_back_neither_repeats_nor_loses_a_window() -> None:
    meter, clock = meter_at(10_000)
    clock.now = 11_500
    starts = [report.start_ms for report in meter.finished()]
    clock.now = 9_000
    starts += [report.start_ms for report in meter.finished()]
    clock.now = 12_000
    starts += [report.start_ms for report in meter.finished()]
    assert starts == [10_000, 11_000]


def test_a_window_names_the_plan_version_at_its_end() -> None:
    meter, clock = meter_at(10_000)
    meter.set_version(1)
    clock.now = 11_500
    meter.set_version(2)
    clock.now = 12_000
    assert [report.version for report in meter.finished()] == [1, 2]


def test_another_length_drops_the_window_that_has_begun() -> None:
    meter, clock = meter_at(10_000)
    meter.hold([FIRST])
    meter.add(FIRST, USE)
    clock.now = 10_500
    meter.set_length(2000)
    clock.now = 14_000
    first, second = meter.finished()
    assert (first.start_ms, first.is_whole, first.partitions[0].records) == (10_000, False, 0)
    assert second.is_whole
