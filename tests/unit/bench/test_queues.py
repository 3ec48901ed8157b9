"""Queues, nodes in time, pipelines and substreams of the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from bench.simulator.cluster import PauseModel
from bench.simulator.fleet import Fleet
from bench.simulator.pipeline import KEY_GROUPS_EACH, Ramp, Source, topology
from bench.simulator.queues import Queues, departures
from bench.simulator.substreams import (
    LAWS,
    RATE_PER_S,
    WINDOW_S,
    Substreams,
    shares_of,
)


def one_by_one(ready: np.ndarray, service: float, free: float) -> list[float]:
    done = []
    for at in ready.tolist():
        free = max(at, free) + service
        done.append(free)
    return done


def test_departures_are_those_of_a_queue_served_one_by_one() -> None:
    rng = np.random.default_rng(0)
    ready = np.sort(rng.uniform(0, 10, 500))
    found = departures(ready, 0.02, 0.3)
    assert found == pytest.approx(one_by_one(ready, 0.02, 0.3))


def test_a_queue_goes_on_from_window_to_window() -> None:
    whole, halves = Queues(np.ones(2), 3), Queues(np.ones(2), 3)
    rng = np.random.default_rng(1)
    at, key = np.sort(rng.uniform(0, 1, 200)), rng.integers(0, 3, 200)
    node = np.array([0, 1, 1])[key]
    together = whole.serve(at, key, node, 0.02)
    parts = [halves.serve(at[i], key[i], node[i], 0.02) for i in (slice(0, 90), slice(90, 200))]
    assert together == pytest.approx(np.concatenate(parts))
    assert together.min() == pytest.approx(0.02)


def test_a_node_of_twice_the_capacity_serves_twice_as_fast() -> None:
    queues = Queues(np.array([1.0, 2.0]), 2)
    waits = queues.serve(np.zeros(2), np.array([0, 1]), np.array([0, 1]), 0.1)
    assert waits.tolist() == pytest.approx([0.1, 0.05])


def test_records_of_a_key_group_wait_for_its_state_and_no_others() -> None:
    queues = Queues(np.ones(2), 3)
    before, after = np.array([0, 0, 1]), np.array([1, 0, 1])
    queues.move(before, after, np.array([100, 100, 100]), PauseModel(0.5, 0.01), at_s=10.0)
    assert queues.held_until_s.tolist() == [11.5, 0.0, 0.0]
    waits = queues.serve(np.full(2, 10.0), np.array([0, 1]), after[[0, 1]], 0.001)
    assert waits.tolist() == pytest.approx([1.501, 0.001])


def test_state_leaves_after_the_queue_is_worked_off_and_one_after_another() -> None:
    queues = Queues(np.ones(3), 2)
    queues.free_at_s[0] = 12.0
    queues.move(np.array([0, 0]), np.array([1, 2]), np.array([1, 1]), PauseModel(1.0), at_s=10.0)
    assert queues.held_until_s.tolist() == [13.0, 14.0]


def test_nodes_come_up_after_their_launch_and_are_paid_for_from_the_start() -> None:
    fleet = Fleet(launch_s=120.0)
    fleet.start(["a"])
    fleet.launch(["b"], now_s=60.0)
    assert [m.name for m in fleet.ready(100.0)] == ["a"]
    assert [m.name for m in fleet.ready(180.0)] == ["a", "b"]
    fleet.drain(["a"])
    assert fleet.machines()[0].state(200.0) == "draining"
    fleet.end(["a"], now_s=1800.0)
    assert fleet.instance_hours(3660.0) == pytest.approx(0.5 + 1.0)
    assert fleet.billed_hours(3660.0) == 2
    with pytest.raises(ValueError, match="asked for before"):
        fleet.launch(["b"], now_s=0.0)


def test_a_source_loses_nothing() -> None:
    source, arrived, passed = Source(), 0.0, 0.0
    for i in range(40):
        rate = Ramp(10.0, 5.0, 30.0).at(30.0 * i)
        arrived += 30.0 * rate
        passed += 30.0 * source.step(rate, capable=100.0, seconds=30.0, held=20.0 * (i == 3))
    assert arrived == pytest.approx(passed + source.backlog)
    assert source.backlog > 0


def test_the_fullest_node_sets_the_pace_and_a_fluid_would_be_faster() -> None:
    made = topology(1, (0.2, 0.1, 0.1))
    groups = len(made.operator)
    assert made.share.sum() == pytest.approx(3.0)
    assert made.bound(4) == pytest.approx(10_000.0)
    assert made.sustained(np.zeros(groups, dtype=np.int64), 1) == pytest.approx(made.bound(1))
    assert made.sustained(np.arange(groups) % 4, 4) <= made.bound(4)
    assert groups == 3 * KEY_GROUPS_EACH


@pytest.mark.parametrize("law", LAWS)
def test_substreams_are_poisson_and_repeat_for_a_seed(law: str) -> None:
    one, two = Substreams(law, 5), Substreams(law, 5)
    a, b = one.next_window(), two.next_window()
    assert np.array_equal(a.at_s, b.at_s)
    assert np.array_equal(a.substream, b.substream)
    expected = RATE_PER_S * WINDOW_S
    assert abs(len(a.at_s) - expected) < 5 * np.sqrt(expected)
    assert a.counts(one.substreams).sum() == len(a.at_s)
    assert shares_of(law, 400).sum() == pytest.approx(1.0)
    assert shares_of(law, 400).max() < 0.1


def test_a_law_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no such law"):
        shares_of("uniform", 3)
