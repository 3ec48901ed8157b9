"""Split keys on Spark: exact sums while keys are split, joined and split anew, at both ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ballast.store.plans import read_acks
from ballast.streaming import Operator, StateMerge
from ballast.streaming.job_state import placement_in_force, read_key_states, read_states
from ballast.streaming.node_task import BatchWork
from ballast.streaming.routing import first_placement, key_group_of, node_indexes
from ballast.streaming.spark_stages import routed_source
from tests.support.streaming_bench import FAST, WORDS, Bench
from tests.support.streaming_parts import JOB, OPERATORS_BY_KEY, policy_of, topology_by_key
from tests.support.streaming_plans import publish

HOT = "a7"
"""The hot key of the source; its letter is a hot key of ``total``."""
ALL_LETTERS = [("total", letter, part) for letter in "abcdé" for part in (0, 1)]
WIDE = [("total", "a", part) for part in (0, 1)]


def home(by):
    return lambda operator, group: f"node-{(group + by + len(operator)) % 3}"


def letters_of(bench):
    return Counter(word[0] for word in bench.counted.elements() if word)


def check_sums(bench):
    """Every sum is that of the input, and no part is where the plan in force has none."""
    total = OPERATORS_BY_KEY[2]
    assert read_key_states(bench.settings, JOB, total) == {
        letter: {"word": n, "counted": n} for letter, n in letters_of(bench).items()
    }
    placement = placement_in_force(bench.settings, JOB)
    for group, state in read_states(bench.settings, JOB, "total").items():
        assert all(group in placement.parts_of("total", key) for key in state)


def test_sums_stay_exact_while_keys_are_split_joined_and_split_anew(spark, settings, tmp_path):
    bench = Bench(spark, settings, tmp_path, OPERATORS_BY_KEY)
    policy = policy_of(3, window_s=1, statistics_period_s=10)
    words = [*WORDS, *[HOT] * 200]
    with bench.start(policy) as running:
        for version, (nodes, splits) in enumerate(
            [(home(0), ALL_LETTERS), (home(1), WIDE), (home(1), [])], start=1
        ):
            publish(bench.settings, policy, version, nodes, splits=splits)
            for _ in range(2):
                bench.feed(words)
                running.drain()
            check_sums(bench)
            groups = read_states(bench.settings, JOB, "total").values()
            in_both = [key for key in "abcdé" if all(key in state for state in groups)]
            assert in_both == sorted({key for _, key, _ in splits}), "joined keys are in one place"
    publish(bench.settings, policy, 4, home(0), splits=ALL_LETTERS)
    with bench.start(policy) as running:  # a process that finds joined keys, and splits them
        bench.feed(words)
        running.drain()
    with bench.start(policy, FAST) as running:  # and one that finds split keys
        bench.feed(words)
        running.drain()
    check_sums(bench)
    applied = [ack for ack in read_acks(bench.settings, JOB) if ack.status == "applied"]
    assert [ack.version for ack in applied] == [1, 2, 3, 4]
    keys = bench.rows("metrics.key_pairs").query("kind == 'key' and from_operator_id == 'total'")
    counted = keys.groupby("from_key").records.sum().to_dict()
    assert counted == {letter: 2 * n for letter, n in letters_of(bench).items()}, "each once"
    assert (keys.error_records == 0).all()


def count(state, key, record):
    state[key] = state.get(key, 0) + 1


def test_a_job_of_one_operator_deals_the_records_of_its_source(spark, settings, tmp_path):
    sample = [{"value": word} for word in ("a", "b", "c")]
    operator = Operator("count", count, state_by_key=True, merge=StateMerge(int.__add__, sample))
    operators = [{"id": "count", "key_groups": 6, "partition_key": ["word"]}]
    policy = policy_of(3, window_s=1, statistics_period_s=10, operators=operators, edges=[])
    bench = Bench(spark, settings, tmp_path, [operator])
    parts = tuple(sorted({key_group_of(HOT, 6), *range(4)}))
    publish(bench.settings, policy, 1, home(0), splits=[("count", HOT, part) for part in parts])
    with bench.start(policy) as running:
        bench.feed([*WORDS, *[HOT] * 400])
        running.drain()
    states = read_states(bench.settings, JOB, "count")
    assert read_key_states(bench.settings, JOB, operator) == dict(bench.counted)
    dealt = [states[part][HOT] for part in parts]
    assert max(dealt) <= 1.5 * min(dealt), "the parts are about level"
    publish(bench.settings, policy, 2, home(2))
    with bench.start(policy) as running:
        bench.feed([*WORDS, HOT])
        running.drain()
    states = read_states(bench.settings, JOB, "count")
    assert [group for group, state in states.items() if HOT in state] == [key_group_of(HOT, 6)]
    assert read_key_states(bench.settings, JOB, operator) == dict(bench.counted)


def test_records_of_a_split_key_are_dealt_and_other_records_stay_where_they_were(spark):
    topology = topology_by_key()
    placement = first_placement(topology, policy_of(3))
    nodes = ("node-0", "node-1", "node-2")
    work = BatchWork(topology, node_indexes(placement, topology, nodes), nodes, 0, "")
    frame = spark.createDataFrame([(word,) for word in ["a1", "b2"] * 600], "value string")
    frame = frame.coalesce(1)
    split = replace(work, splits={"parse": {"a1": (0, 2, 3)}})
    rows = routed_source(frame, "value", split).orderBy("_ballast_order").collect()
    of_key = [row["_ballast_group"] for row in rows if row["_ballast_key"] == "a1"]
    assert sorted(Counter(of_key)) == [0, 2, 3]
    assert max(Counter(of_key).values()) <= 1.5 * min(Counter(of_key).values())
    others = {row["_ballast_group"] for row in rows if row["_ballast_key"] == "b2"}
    assert others == {key_group_of("b2", 4)}
    owners = split.owners[0]
    assert all(row["_ballast_node"] == owners[row["_ballast_group"]] for row in rows)
