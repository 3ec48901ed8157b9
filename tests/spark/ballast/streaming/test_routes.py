"""Routing by key on Spark: exact counts over changes of routes, at every operator; odd keys."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from ballast.contracts.errors import BallastError
from ballast.store.plans import read_acks
from ballast.streaming import Operator
from ballast.streaming.job_state import placement_in_force, read_states
from ballast.streaming.node_task import BatchWork
from ballast.streaming.routing import first_placement, key_group_of, node_indexes
from ballast.streaming.spark_stages import SentRoutes, routed_source
from tests.support.streaming_bench import POLICY, WORDS, Bench
from tests.support.streaming_parts import (
    JOB,
    OPERATORS_BY_KEY,
    topology_by_key,
)
from tests.support.streaming_plans import publish

ODD = ["o'clock", 'say "x"', "tab\there", "x" * 2**20, ""]
FIRST = (
    [("parse", word, 3) for word in WORDS[:20]]
    + [("count", word, 5) for word in WORDS[:40]]
    + [("total", letter, 1) for letter in "abo"]
    + [(operator, key, 0) for operator in ("parse", "count") for key in ODD[:3]]
)
CHANGED = (
    [("parse", word, 0) for word in WORDS[10:30]]
    + [("count", word, 2) for word in WORDS[20:60]]
    + [("count", "never seen", 1)]
)


def parse_and_remember(state, key, record):
    """``parse`` with state of its own, so that a key in a wrong key group is detected."""
    state[key] = state.get(key, 0) + 1
    return [("word", record["value"], 1)]


def bench_of(spark, settings, tmp_path):
    operators = [
        Operator("parse", parse_and_remember, state_by_key=True),
        *OPERATORS_BY_KEY[1:],
    ]
    return Bench(spark, settings, tmp_path, operators)


def home(by):
    return lambda operator, group: f"node-{(group + by + len(operator)) % 3}"


def check_everything(bench):
    """Check every count, and that every key is in the key group of the plan in force."""
    placement = placement_in_force(bench.settings, JOB)
    assert bench.state("parse") == dict(bench.counted)
    assert bench.state("count") == {word: n for word, n in bench.counted.items() if word}
    letters = {}
    for word, times in bench.counted.items():
        if word:
            letters[word[0]] = letters.get(word[0], 0) + times
    assert bench.state("total") == {k: {"word": n, "counted": n} for k, n in letters.items()}
    for operator in ("parse", "count", "total"):
        for group, state in read_states(bench.settings, JOB, operator).items():
            assert {placement.group_of(operator, key) for key in state} <= {group}


def test_counts_stay_exact_while_routes_come_change_and_go(spark, settings, tmp_path):
    bench = bench_of(spark, settings, tmp_path)
    words = WORDS + ODD
    with bench.start() as running:
        bench.feed(words)
        running.drain()
        for version, (nodes, routes) in enumerate(
            [(home(0), FIRST), (home(1), CHANGED), (home(1), FIRST)], start=1
        ):
            publish(bench.settings, POLICY, version, nodes, routes)
            bench.feed(words)
            running.drain()
            bench.feed(words)
            running.drain()
    check_everything(bench)
    assert placement_in_force(bench.settings, JOB).routes["count"]['say "x"'] == 0
    publish(bench.settings, POLICY, 4, home(1), [])
    with (
        bench.start() as running
    ):  # with routes from the folder of the process before, then without
        bench.feed(words)
        running.drain()
    check_everything(bench)
    applied = [ack for ack in read_acks(bench.settings, JOB) if ack.status == "applied"]
    assert [ack.version for ack in applied] == [1, 2, 3, 4]
    assert [ack.moved_key_groups == 0 for ack in applied] == [False, False, True, True]
    assert all(ack.bytes_moved > 0 for ack in applied), "keys weigh too"
    _check_key_pairs(bench, len(words))


def _check_key_pairs(bench, words):
    rows = bench.rows("metrics.key_pairs")
    key = ["kind", "from_operator_id", "from_key", "to_operator_id", "to_key", "window_start_at"]
    assert not rows.duplicated(key).any()
    batches = 8
    keys = rows[rows.kind == "key"]
    counted = keys[keys.from_operator_id == "count"].groupby("from_key").records.sum()
    long = max(bench.counted, key=len)
    assert counted.to_dict() == {w: n for w, n in bench.counted.items() if w and w != long}
    others = rows[rows.kind == "other_keys"].groupby("from_operator_id").records.sum()
    assert others.to_dict() == {"parse": batches, "count": batches, "total": 0}
    pairs = rows[rows.kind == "pair"]
    along = pairs[(pairs.from_operator_id == "parse") & (pairs.to_operator_id == "total")]
    assert (along.from_key.str[:1] == along.to_key).all()
    assert along.records.sum() == batches * (words - 2), "all but the empty and the long key"
    assert rows.error_records.sum() == 0
    traffic = bench.rows("metrics.traffic")
    assert rows[rows.kind.isin(["pair", "other_pairs"])].records.sum() == traffic.records.sum()
    groups = bench.rows("metrics.key_groups")
    assert (groups.wire_ms <= groups.cpu_ms).all()
    assert groups.wire_ms.sum() > 0


def test_a_plan_whose_routes_do_not_fit_is_refused_and_the_job_goes_on(spark, settings, tmp_path):
    bench = bench_of(spark, settings, tmp_path)
    publish(bench.settings, POLICY, 1, home(0), [("count", "a1", 99)])
    with bench.start() as running:
        bench.feed()
        running.drain()
    check_everything(bench)
    refused = [ack for ack in read_acks(bench.settings, JOB) if ack.status == "refused"]
    assert "key group 99 is not one of 0 to 5" in refused[0].reason


def test_text_that_is_not_utf8_is_a_clear_error_with_a_remedy(spark, settings, tmp_path):
    bench = bench_of(spark, settings, tmp_path)
    running = bench.start()
    bench.feed_bytes(b"good\nbad \xff\xfe\n")
    running.wait(threading.Event())
    with pytest.raises(BallastError, match=r"not UTF-8.*make_valid_utf8"):
        running.stop()


def work_of(placement):
    nodes = ("node-0", "node-1", "node-2")
    return BatchWork(
        topology_by_key(), node_indexes(placement, topology_by_key(), nodes), nodes, 0, ""
    )


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_without_routes_the_source_is_not_joined_and_with_them_each_record_stays_one(spark):
    topology = topology_by_key()
    hashed = first_placement(topology, POLICY)
    routed = replace(hashed, version=1, routes={"parse": {"a1": 3, "": 2, "o'x": 1}})
    frame = spark.createDataFrame(
        [(word,) for word in ["a1", "a2", None, "o'x", "a1"]], "value string"
    )
    plain = routed_source(frame, "value", work_of(hashed))
    assert "Join" not in plan_of(plain)
    sent = SentRoutes(spark, routed, "parse")
    joined = routed_source(frame, "value", work_of(routed), sent.source)
    assert "BroadcastHashJoin" in plan_of(joined)
    assert "Python" not in plan_of(joined)
    rows = joined.orderBy("_ballast_order").collect()
    assert [(r["_ballast_key"], r["_ballast_group"]) for r in rows] == [
        ("a1", 3), ("a2", key_group_of("a2", 4)), ("", 2), ("o'x", 1), ("a1", 3),
    ]  # fmt: skip
    assert plain.columns == joined.columns
    assert sent.on_worker()() == routed.routes
    sent.forget()
