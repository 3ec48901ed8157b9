"""Windows: no gap while a job runs, a gap while it is down, every batch in exactly one window."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ballast.streaming.batch_figures import BatchFigures, GroupFigures
from ballast.streaming.heavy_keys import KEPT_IN_WINDOW, Summary, exact
from ballast.streaming.metrics_ledger import Flusher, Ledger
from ballast.streaming.metrics_rows import (
    key_group_rows,
    key_pair_rows,
    load_distance_pct,
    node_rows,
    traffic_rows,
)
from ballast.streaming.metrics_window import (
    CountedBatch,
    MetricsWindow,
    covered_windows,
    first_open_window,
    window_start,
)
from tests.support.streaming_parts import policy_of

W = 5000


class SettableClock:
    now = 100 * W

    def __call__(self):
        return self.now


def measured(batch_id, records=10, version=0, node="node-0"):
    groups = {
        ("parse", 0): GroupFigures(node, 100 + batch_id, records, 1.5, 2.0, 7, 9, 0.5),
        ("parse", 1): GroupFigures("node-1", 50),
    }
    traffic = {("parse", 0, "count", 1): (records, 9)}
    keys = {"parse": exact({"": 2, "o'x": records})}
    pairs = {("parse", "count"): Summary({("o'x", "two\nlines"): records}, {}, 1, records + 3)}
    return BatchFigures(batch_id, version, groups, traffic, ("node-0", "node-1"), keys, pairs)


@pytest.fixture
def restarts(tmp_path):
    """Starts processes of one ledger; written windows and their numbers are kept across them."""

    class Restarts:
        clock = SettableClock()
        broken = False

        def __init__(self):
            self.written, self.numbers = [], []

        def publish(self, windows, number):
            if self.broken:
                raise OSError("no table")
            if number not in self.numbers:
                self.numbers.append(number)
                self.written.extend(windows)

        def begin(self):
            return Ledger(tmp_path, W, self.clock, self.publish)

        def seen(self):
            return [(w.start_ms // W, [b.batch_id for b in w.batches]) for w in self.written]

    return Restarts()


def test_a_window_holds_its_start_and_not_its_end():
    assert [window_start(ms, W) for ms in (0, 4999, 5000)] == [0, 0, 5000]
    assert [first_open_window(ms, W) for ms in (0, 5000, 7000)] == [0, 5000, 10000]


def test_a_live_job_has_no_gaps_and_a_batch_is_in_the_window_it_ends_in(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    restarts.clock.now = 101 * W - 1
    ledger.record(measured(1))
    assert ledger.flush() == [], "the window is not over"
    restarts.clock.now = 104 * W + 10
    ledger.record(measured(2))
    ledger.flush()
    assert restarts.seen() == [(100, [0, 1]), (101, []), (102, []), (103, [])]
    restarts.clock.now = 105 * W
    ledger.flush()
    assert restarts.seen()[-1] == (104, [2])
    assert restarts.numbers == [104 * W, 105 * W]


def test_time_before_the_first_batch_and_time_down_are_gaps(restarts):
    ledger = restarts.begin()
    restarts.clock.now = 110 * W
    assert ledger.flush() == []
    ledger.record(measured(0))
    restarts.clock.now = 150 * W
    again = restarts.begin()
    again.flush()
    again.record(measured(1))
    again.flush()
    restarts.clock.now = 152 * W
    again.saw_idle(restarts.clock.now)
    again.flush()
    assert restarts.seen() == [(110, [0]), (150, [1]), (151, [])]


def test_a_crash_loses_no_batch_and_repeats_none(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    restarts.clock.now += W
    ledger.record(measured(1))
    restarts.broken = True
    with pytest.raises(OSError, match="no table"):
        ledger.flush()
    restarts.broken = False
    again = restarts.begin()  # the process died while it wrote
    assert again.has(1)
    assert not again.has(2)
    again.record(measured(1, records=999))  # a replay of a batch that was counted
    restarts.clock.now += W
    again.flush()
    again.record(measured(2))
    restarts.clock.now += W
    again.flush()
    assert restarts.seen() == [(100, [0]), (101, [1]), (102, [2])]
    assert sum(w.records for w in restarts.written) == 30


def test_a_job_restarted_within_a_window_it_closed_starts_in_the_next(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    ledger.flush(closing=True)
    restarts.clock.now += 100
    again = restarts.begin()
    again.record(measured(1))
    again.flush(closing=True)
    assert restarts.seen() == [(100, [0]), (101, [1])]


def test_a_window_whose_writing_was_broken_off_takes_no_more_batches(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    restarts.broken = True
    assert not Flusher(ledger, lambda window: None).finish()
    restarts.broken = False
    again = restarts.begin()  # within the same window
    again.record(measured(1))
    again.flush(closing=True)
    assert restarts.seen() == [(100, [0]), (101, [1])]


def test_tables_that_cannot_be_reached_do_not_stop_the_job(restarts):
    ledger = restarts.begin()
    flusher = Flusher(ledger, lambda window: None)
    ledger.record(measured(0))
    restarts.broken = True
    restarts.clock.now += W
    assert not flusher.flush()
    restarts.broken = False
    ledger.saw_idle(restarts.clock.now)
    assert flusher.finish()
    assert restarts.seen() == [(100, [0]), (101, [])]


def test_windows_of_a_batch_that_runs_are_written_when_it_ends(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    restarts.clock.now = 103 * W
    ledger.flush()
    assert restarts.seen() == [(100, [0])], "nothing is known of the batch that runs"
    ledger.record(measured(1))
    restarts.clock.now = 104 * W
    ledger.flush()
    assert restarts.seen() == [(100, [0]), (101, []), (102, []), (103, [1])]


def test_time_in_which_a_job_was_not_measured_is_missing_and_not_zero(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    ledger.lose()
    for window in (102, 103):
        restarts.clock.now = window * W
        ledger.flush()
    ledger.record(measured(1))
    restarts.clock.now = 104 * W
    ledger.saw_idle(restarts.clock.now)
    ledger.flush()
    assert restarts.seen() == [(100, [0]), (103, [1])]


def test_a_gap_stays_a_gap_for_the_next_process(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    ledger.lose()
    restarts.clock.now = 103 * W
    ledger.record(measured(1))
    again = restarts.begin()  # the process died before it wrote a window
    restarts.clock.now = 104 * W
    again.flush()
    assert restarts.seen() == [(100, [0]), (103, [1])]


def test_idle_time_is_zero_up_to_where_it_was_seen(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    ledger.saw_idle(102 * W)
    restarts.clock.now = 105 * W
    ledger.flush()
    assert restarts.seen() == [(100, [0]), (101, [])]


def test_the_state_of_the_job_is_reported_when_tables_cannot_be_reached(restarts):
    ledger, reports = restarts.begin(), []
    flusher = Flusher(ledger, lambda window: None, lambda: reports.append("report"))
    ledger.record(measured(0))
    restarts.broken = True
    assert not flusher.finish()
    assert reports == ["report"]


def test_figures_survive_the_disk():
    batch = CountedBatch(replace(measured(3, version=2), nodes=("node-0",)), 500, 0, True)
    assert CountedBatch.from_json(json.loads(json.dumps(batch.to_json()))) == batch


def test_figures_of_an_earlier_version_are_read():
    found = BatchFigures(3, 2, measured(3).groups, {}, ()).to_json()
    del found["keys"], found["pairs"]
    found["groups"] = [group[:-1] for group in found["groups"]]
    batch = BatchFigures.from_json(found)
    assert (batch.keys, batch.pairs) == ({}, {})
    assert batch.groups["parse", 0].wire_ms == 0


def test_rows_of_key_pairs_are_the_sums_of_the_window_with_their_bounds(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    ledger.record(measured(1))
    restarts.clock.now += 2 * W
    ledger.saw_idle(restarts.clock.now)
    busy, idle = ledger.flush()
    rows = key_pair_rows("diamond", busy, datetime.now(UTC)).to_pylist()
    shown = {
        (r["kind"], r["from_operator_id"], r["from_key"], r["to_operator_id"], r["to_key"]):
        (r["records"], r["error_records"])
        for r in rows
    }  # fmt: skip
    assert shown == {
        ("key", "parse", "", None, None): (4, 0),
        ("key", "parse", "o'x", None, None): (20, 0),
        ("other_keys", "parse", None, None, None): (0, 0),
        ("pair", "parse", "o'x", "count", "two\nlines"): (20, 0),
        ("other_pairs", "parse", None, "count", None): (6, 2),
    }
    assert {(r["first_batch_id"], r["last_batch_id"], r["job"]) for r in rows} == {
        (0, 1, "diamond")
    }
    assert key_pair_rows("diamond", idle, datetime.now(UTC)).num_rows == 0


def test_rows_of_key_pairs_are_bounded():
    many = exact({(f"k{n}", "x"): 1 + n % 3 for n in range(3 * KEPT_IN_WINDOW)})
    batch = BatchFigures(0, 0, {}, {}, (), {}, {("parse", "count"): many})
    rows = key_pair_rows(
        "diamond", MetricsWindow(0, W, (batch,), batch), datetime.now(UTC)
    ).to_pylist()
    assert len(rows) == KEPT_IN_WINDOW + 1
    assert sum(row["records"] for row in rows) == many.total
    assert rows[-1]["kind"] == "other_pairs"
    assert rows[-1]["error_records"] == 2


def test_rows_have_every_key_group_and_the_state_at_the_end(restarts):
    ledger = restarts.begin()
    ledger.record(measured(0))
    ledger.record(measured(1, version=4, node="node-2"))
    restarts.clock.now += 2 * W
    ledger.saw_idle(restarts.clock.now)
    busy, idle = ledger.flush()
    at = datetime.now(UTC)
    first, second = key_group_rows("diamond", busy, at)
    assert (first["records"], first["cpu_ms"], first["state_bytes"]) == (20, 3.0, 101)
    assert first["wire_ms"] == 1.0
    assert (first["node_id"], first["plan_version"]) == ("node-2", 4)
    assert (first["first_batch_id"], first["last_batch_id"]) == (0, 1)
    assert (second["records"], second["state_bytes"]) == (0, 50)
    assert traffic_rows("diamond", busy, at)[0]["records"] == 20
    nodes = {row["node_id"]: row for row in node_rows("diamond", busy, policy_of(3), at)}
    assert nodes.keys() == {"node-0", "node-1"}, "only nodes that answered"
    assert nodes["node-0"]["heartbeats"] == 2
    assert nodes["node-0"]["cpu_used_ms"] == 1.5
    quiet = key_group_rows("diamond", idle, at)[0]
    assert (quiet["records"], quiet["state_bytes"], quiet["first_batch_id"]) == (0, 101, None)
    assert traffic_rows("diamond", idle, at) == []
    assert [row["heartbeats"] for row in node_rows("diamond", idle, policy_of(3), at)] == [0, 0]


def test_windows_of_two_lives_do_not_fill_the_gap_between_them():
    def batch(batch_id, window, first_of_process):
        figures = BatchFigures(batch_id, 0, {}, {}, ())
        return CountedBatch(figures, window * W, window * W, first_of_process)

    pending = [batch(0, 3, True), batch(1, 5, False), batch(2, 9, True)]
    starts = covered_windows(pending, 0, W, (9 * W, 11 * W))
    assert [start // W for start in starts] == [3, 4, 5, 9, 10]


def test_load_distance_is_the_worst_node_in_percent_of_the_mean():
    policy = policy_of(nodes=[{"id": "a"}, {"id": "b"}, {"id": "c", "draining": True}])
    assert load_distance_pct({"a": 30.0, "b": 10.0}, policy) == pytest.approx(50)
    assert load_distance_pct({}, policy) == 0
    assert load_distance_pct({"a": 10.0, "b": 10.0, "c": 5.0}, policy) == pytest.approx(20)
