"""Parts of an ordered region that need no process: round robin, frames, clock, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.streaming.clock import ForwardClock
from ballast.streaming.region.busy_times import BusyTimes
from ballast.streaming.region.frames import LARGEST, RECORD, FrameReader, packed
from ballast.streaming.region.in_flight import InFlight
from ballast.streaming.region.measurement import Reading, window_between
from ballast.streaming.region.metrics_writer import connection_rows
from ballast.streaming.region.weights import (
    UNITS,
    WeightedRoundRobin,
    among_alive,
    even_weights,
    rounded,
)

QUICK = settings(max_examples=80, deadline=None, derandomize=True)


class Hands:
    """A clock whose time a test sets."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any))
@QUICK
def test_a_thousand_turns_are_the_weights_exactly(parts: list[int]) -> None:
    weights = rounded([float(p) for p in parts])
    turns = WeightedRoundRobin(weights)
    found = np.bincount([turns.next() for _ in range(UNITS)], minlength=len(parts))
    assert found.tolist() == weights.tolist()


def test_a_small_weight_gets_its_turn_though_weights_change_all_the_time() -> None:
    turns = WeightedRoundRobin(np.array([999, 1]))
    chosen = []
    for number in range(2000):
        if number % 50 == 0:
            turns.change(np.array([999, 1]))
        chosen.append(turns.next())
    assert sum(chosen) == 2


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40).filter(lambda p: sum(p) > 1e-6))
@QUICK
def test_rounded_weights_add_up_and_are_within_a_unit(parts: list[float]) -> None:
    units = rounded(parts)
    assert units.sum() == UNITS
    assert (np.abs(units - np.array(parts) * UNITS / sum(parts)) < 1 + 1e-6).all()


def test_even_weights_differ_by_a_unit_at_most() -> None:
    assert even_weights(3) == [334, 333, 333]
    assert max(even_weights(64)) - min(even_weights(64)) == 1


def test_what_the_dead_had_goes_to_the_living_in_proportion() -> None:
    weights = np.array([500, 300, 200])
    assert among_alive(weights, np.array([False, True, True])).tolist() == [0, 600, 400]
    only = np.array([1000, 0, 0])
    assert among_alive(only, np.array([False, True, True])).tolist() == [0, 500, 500]


@given(st.lists(st.binary(max_size=40), max_size=10), st.integers(1, 17))
@QUICK
def test_frames_survive_any_cut(bodies: list[bytes], step: int) -> None:
    stream = b"".join(packed(RECORD, n, body) for n, body in enumerate(bodies))
    reader = FrameReader()
    found = []
    for start in range(0, len(stream), step):
        found += reader.feed(stream[start : start + step])
    assert found == [(RECORD, n, body) for n, body in enumerate(bodies)]


def test_a_frame_that_says_it_is_huge_is_not_waited_for() -> None:
    broken = packed(RECORD, 1, b"")[:-4] + (LARGEST + 1).to_bytes(4, "big")
    with pytest.raises(ValueError, match="at most"):
        list(FrameReader().feed(broken))


def test_a_clock_that_goes_back_adds_nothing_and_goes_on_from_there() -> None:
    hands = Hands()
    clock = ForwardClock(hands, at=1000.0)
    hands.at = 101.0
    assert clock.now() == 1001.0
    hands.at = 50.0
    assert clock.now() == 1001.0
    hands.at = 51.5
    assert clock.now() == 1002.5


def test_busy_time_runs_while_at_least_one_record_is_out() -> None:
    hands = Hands()
    busy = BusyTimes(1, ForwardClock(hands))
    for move, seconds in (("sent", 1), ("sent", 2), ("returned", 1), ("returned", 5)):
        getattr(busy, move)(0)
        hands.at += seconds
    busy.sent(0)
    hands.at += 0.5
    done, busy_s = busy.reading()
    assert done.tolist() == [2]
    assert busy_s.tolist() == pytest.approx([4.5])


def reading(at: float, **figures: Any) -> Reading:
    blank = {"sent": [0, 0], "blocked_s": [0.0, 0.0], "done": [0, 0], "busy_s": [0.0, 0.0]}
    arrays = {name: np.array(value) for name, value in {**blank, **figures}.items()}
    return Reading(
        at, weight_s=arrays.pop("weight_s"), alive=arrays.pop("alive", np.ones(2, bool)), **arrays
    )


def test_a_connection_without_a_turn_has_no_blocking_rate_and_an_idle_one_has() -> None:
    window = window_between(
        ("a", "b"), reading(0.0, weight_s=[0, 0]), reading(2.0, weight_s=[2000, 0])
    )
    assert np.isnan(window.blocking[0])
    assert window.blocking[1] == 0


def test_a_dead_connection_says_so_and_has_no_blocking_rate() -> None:
    after = reading(
        2.0, weight_s=[1000, 1000], sent=[5, 5], blocked_s=[1.0, 0.5], alive=[True, False]
    )
    window = window_between(("a", "b"), reading(0.0, weight_s=[0, 0]), after)
    assert window.blocking[0] == 0.5
    assert np.isnan(window.blocking[1])
    rows = connection_rows(window, "j", "r", 0)
    assert [(row["worker_id"], row["state"]) for row in rows] == [("a", "alive"), ("b", "dead")]


def test_weights_of_a_window_are_their_mean_over_time() -> None:
    after = reading(4.0, weight_s=[500 * 4, 500 * 3 + 500 * 1])
    window = window_between(("a", "b"), reading(0.0, weight_s=[0, 0]), after)
    assert window.weights.tolist() == [500, 500]
    mixed = reading(4.0, weight_s=[1000 * 1, 1000 * 3])
    assert window_between(("a", "b"), reading(0.0, weight_s=[0, 0]), mixed).weights.tolist() == [
        250,
        750,
    ]


def flight(weights: list[int]) -> InFlight:
    return InFlight(np.array(weights), 10, ForwardClock())


def test_a_result_that_comes_twice_comes_out_once() -> None:
    found = flight([1000])
    found.add(b"a")
    found.complete(0, b"A")
    found.complete(0, b"A")
    assert list(found.in_order()) == [b"A"]
    found.complete(0, b"A")
    assert list(found.in_order()) == []


def test_of_a_dead_worker_only_what_did_not_come_back_is_sent_again() -> None:
    found = flight([1000, 0])
    for record in (b"a", b"b", b"c"):
        found.add(record)
    found.complete(1, b"B")
    assert found.remove_worker(0) == [0, 2]
    assert found.weights.tolist() == [0, 1000]
    again = found.resend(0)
    assert again is not None
    assert (again.record, again.connection, again.deaths) == (b"a", 1, 1)
    late = found.resend(2)
    assert late is not None
    # Only the record that it processed counts as a possible cause of its death.
    assert late.deaths == 0
    assert found.resend(1) is None
