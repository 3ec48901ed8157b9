"""CPU times corrected by the speed of the processor."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.streaming import processor_speed
from ballast.streaming.processor_speed import ProcessorSpeed, evened, probe_ns

positive = st.floats(min_value=1.0, max_value=1e9)


def test_work_done_at_half_speed_counts_half():
    assert evened([100.0, 200.0, 100.0], [50, 100, 50]) == pytest.approx([400 / 3] * 3)


def test_an_equal_speed_changes_nothing():
    assert evened([5.0, 0.0, 7.0], [80, 80, 80]) == pytest.approx([5.0, 0.0, 7.0])


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=50))
def test_the_total_stays_what_the_clock_said(pairs):
    times, probes = zip(*pairs, strict=True)
    assert sum(evened(times, probes)) == pytest.approx(sum(times))


def test_an_interrupted_probe_counts_within_limits():
    normal = [1000.0] * 9
    interrupted = evened([*normal, 1000.0], [80] * 9 + [80_000])
    assert interrupted[0] / interrupted[-1] == pytest.approx(processor_speed.MOST)


@pytest.mark.parametrize("times", [[], [0.0, 0.0]])
def test_a_batch_without_cpu_time_stays_as_it_is(times):
    assert evened(times, [80] * len(times)) == times


def test_a_clock_too_coarse_for_probes_changes_nothing():
    assert evened([10.0, 20.0], [0, 0]) == [10.0, 20.0]


def test_a_key_group_is_between_the_probes_before_and_after_it(monkeypatch):
    counted = itertools.count(100, 100)
    monkeypatch.setattr(processor_speed, "probe_ns", lambda: next(counted))
    speed = ProcessorSpeed()  # 100
    speed.add(processor_speed.PROBE_EVERY_NS // 2)
    speed.add(processor_speed.PROBE_EVERY_NS)  # 200
    speed.add(1)  # 300, at the end
    assert speed.probes_by_key_group() == [150, 150, 250]


def test_a_task_without_key_groups_has_no_paces():
    assert ProcessorSpeed().probes_by_key_group() == []


def test_the_last_probe_serves_twice_when_nothing_ran_since(monkeypatch):
    counted = itertools.count(100, 100)
    monkeypatch.setattr(processor_speed, "probe_ns", lambda: next(counted))
    speed = ProcessorSpeed()
    speed.add(processor_speed.PROBE_EVERY_NS)
    assert speed.probes_by_key_group() == [150]


def test_a_probe_is_short():
    """It runs once in 2 ms of CPU time; the least of many is free of interruptions."""
    assert 0 < min(probe_ns() for _ in range(50)) < processor_speed.PROBE_EVERY_NS / 5
