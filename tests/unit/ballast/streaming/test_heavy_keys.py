"""Bounds of counts hold after cutting, adding and joining; memory is bounded; any key is
accepted."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.streaming import heavy_keys
from ballast.streaming.heavy_keys import (
    KeyCounter,
    Summary,
    added,
    cut,
    exact,
    from_json,
    joined,
    to_json,
)

STREAM = st.lists(st.sampled_from("abcdefghijkl"), max_size=60)


def bounds_hold(summary: Summary, stream) -> None:
    true = Counter(stream)
    assert summary.total == len(stream)
    assert summary.others == len(stream) - sum(summary.counts.values())
    for item in {*true, *summary.counts, "never seen"}:
        assert summary.counts.get(item, 0) <= true[item] <= summary.at_most(item), item


@given(st.lists(st.tuples(STREAM, st.integers(0, 8)), max_size=6), st.integers(0, 8))
def test_bounds_hold_after_any_cuts_and_sums(parts, keep):
    summary, whole = Summary(), []
    for stream, kept in parts:
        summary = cut(added(summary, cut(exact(Counter(stream)), kept)), keep)
        whole += stream
        bounds_hold(summary, whole)
        assert len(summary.counts) <= keep


@given(STREAM, STREAM, st.integers(0, 5))
def test_bounds_hold_for_streams_without_an_item_in_common(left, right, keep):
    right = [item.upper() for item in right]
    parts = [cut(exact(Counter(stream)), keep) for stream in (left, right)]
    bounds_hold(joined(parts), left + right)


def test_what_stays_after_one_cut_is_exact_and_the_heaviest_stay():
    summary = cut(exact({"a": 1, "b": 5, "c": 3, "d": 3}), 2)
    assert summary.counts == {"b": 5, "c": 3}
    assert (summary.errors, summary.missed, summary.others) == ({}, 3, 4)


def test_a_heavy_item_is_found_among_many_light_ones_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(heavy_keys, "CHUNK", 50)
    monkeypatch.setattr(heavy_keys, "KEPT_IN_BATCH", 20)
    counter, stream = KeyCounter(), []
    for number in range(40):
        some = [("light", f"{number}-{n}") for n in range(30)] + [("heavy", "x")] * 5
        counter.count(some)
        stream += some
        assert len(counter._chunk) <= 50
    summary = counter.summary()
    bounds_hold(summary, stream)
    assert len(summary.counts) <= 20
    assert summary.counts["heavy", "x"] == 200


@pytest.mark.parametrize("key", ["", "o'clock", 'say "x"', "two\nlines", "\x00", "ü" * 512])
def test_odd_keys_are_counted(key):
    counter = KeyCounter()
    counter.count([key, (key, "b")])
    counts = counter.summary().counts
    assert counts == {key: 1, (key, "b"): 1}


@pytest.mark.parametrize("key", ["x" * 2**20, "ü" * 513, "\udc80"])
def test_keys_too_long_or_no_text_are_only_among_the_others(key):
    counter = KeyCounter()
    counter.count([(key, "b"), ("b", key), ("a", "b")])
    summary = counter.summary()
    assert summary.counts == {("a", "b"): 1}
    assert (summary.total, summary.others) == (3, 2)


def test_a_summary_survives_the_disk():
    summary = Summary({("a", "b"): 3, ("a", ""): 1}, {("a", ""): 2}, 4, 11)
    assert from_json(json.loads(json.dumps(to_json(summary)))) == summary
    keys = Summary({"a": 3}, {}, 0, 3)
    assert from_json(json.loads(json.dumps(to_json(keys)))) == keys
