"""A node's stage without Spark: local and remote records, measurements, and determinism."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from ballast.contracts.errors import InvalidInput
from ballast.streaming.batch_figures import figures_of_batch
from ballast.streaming.key_group_state import StateStore
from ballast.streaming.node_task import SOURCE, BatchWork, Delivery, pack, run_node, unpack
from ballast.streaming.operators import Operator, build_topology
from ballast.streaming.routing import first_placement, key_group_of, node_indexes
from tests.support.streaming_parts import (
    JOB,
    OPERATORS,
    policy_of,
    topology_by_key,
    topology_of,
)

WORDS = [f"{letter}{number}" for letter in "abc" for number in range(20)] * 5


class Sum(NamedTuple):
    key: str
    amount: int | None = None


class Nothing(NamedTuple):
    pass


class Noted(Sum):
    """Derived from a named tuple, so that an instance may have more than its fields."""


def noted(key, note):
    record = Noted(key, 1)
    record.note = note
    return record


@pytest.mark.parametrize(
    "records",
    [
        [],
        [Sum("a", 1), Sum("b"), Sum("a", 2)],
        [Sum("a", 1), ("a", 1)],
        [Nothing(), Nothing()],
        [("a", [1]), ("b", [2])],
        [{"value": 1}, None],
    ],
)
def test_records_come_out_as_they_went_in(records):
    pairs = [(f"k{number}", record) for number, record in enumerate(records)]
    back = unpack(pack(pairs))
    assert back == pairs
    assert [type(record) for _, record in back] == [type(record) for record in records]


def test_a_class_that_no_worker_can_import_travels_by_value():
    class Local(NamedTuple):
        key: str

    back = unpack(pack([("k", Local("a")), ("k", Local("b"))]))
    assert [record.key for _, record in back] == ["a", "b"]


def test_a_named_tuple_with_a_way_of_its_own_to_be_pickled_keeps_it():
    class Secret(NamedTuple):
        key: str

        def __reduce__(self):
            return str, ("hidden",)

    assert unpack(pack([("k", Secret("a"))])) == [("k", "hidden")]


def test_what_a_record_holds_beside_its_fields_travels_too():
    back = unpack(pack([("k", noted("a", "x")), ("k", noted("b", "y"))]))
    assert [record.note for _, record in back] == ["x", "y"]


def work_of(tmp_path, batch_id=0, nodes=3):
    policy = policy_of(nodes)
    ids = tuple(node.id for node in policy.nodes)
    routes = node_indexes(first_placement(topology_of(), policy), topology_of(), ids)
    return BatchWork(topology_of(), routes, ids, batch_id, str(tmp_path))


def source(work, words):
    inboxes = {node: {} for node in range(len(work.node_ids))}
    routes = work.routes().get("parse", {})
    for group in range(work.topology.key_groups[0]):
        pairs = [
            (word, {"value": word})
            for word in words
            if routes.get(word, key_group_of(word, work.topology.key_groups[0])) == group
        ]
        if pairs:
            inboxes[work.owner((0, group))][0, group] = [
                Delivery(SOURCE, lambda pairs=pairs: pairs)
            ]
    return inboxes


def run_batch(work, words):
    """All stages as Spark would run them, with blocks arriving in any order."""
    reports, inboxes = [], source(work, words)
    for stage in range(work.topology.stages):
        outgoing = []
        for node, inbox in inboxes.items():
            report, blocks = run_node(work, node, stage, inbox)
            reports.append(report)
            outgoing += blocks
        random.shuffle(outgoing)
        inboxes = {node: {} for node in inboxes}
        for block in outgoing:
            delivery = Delivery(block.sender, lambda p=block.payload: unpack(p), len(block.payload))
            owner = work.owner(block.target)
            inboxes[owner].setdefault(block.target, []).append(delivery)
    assert not any(inboxes.values()), "nothing is left after the last stage"
    return reports


def states(work, operator):
    store = StateStore(Path(work.state_root))
    merged = {}
    index = work.topology.index[operator]
    for group in range(work.topology.key_groups[index]):
        merged |= store.read(work.node_ids[work.owner((index, group))], operator, group)
    return merged


@pytest.mark.parametrize("nodes", [1, 3, 7])
def test_every_record_is_counted_once_on_every_path_however_many_nodes(tmp_path, nodes):
    for batch in range(2):
        run_batch(work_of(tmp_path, batch, nodes), WORDS)
    work = work_of(tmp_path, nodes=nodes)
    assert states(work, "count") == dict.fromkeys(WORDS, 10)
    letters = {f"{a}:{kind}": 200 for a in "abc" for kind in ("word", "counted")}
    assert states(work, "total") == letters


def test_on_one_node_nothing_is_serialised(tmp_path):
    reports = run_batch(work_of(tmp_path, nodes=1), WORDS)
    assert sum(use.bytes_out for r in reports for use in r.groups.values()) == 0
    assert all(size == 0 for r in reports for _, size in r.traffic.values())


def test_bytes_are_counted_only_between_nodes_and_agree_at_both_ends(tmp_path):
    work = work_of(tmp_path)
    reports = run_batch(work, WORDS)
    uses = [use for r in reports for use in r.groups.values()]
    sent = sum(size for r in reports for _, size in r.traffic.values())
    assert sent == sum(use.bytes_out for use in uses) == sum(use.bytes_in for use in uses) > 0
    for report in reports:
        for (sender, target), (records, size) in report.traffic.items():
            assert (size > 0) == (work.owner(sender) != work.owner(target))
            assert records > 0


def test_records_and_traffic_add_up(tmp_path):
    reports = run_batch(work_of(tmp_path), WORDS)
    processed = {0: 0, 1: 0, 2: 0}
    for report in reports:
        for (operator, _), use in report.groups.items():
            processed[operator] += use.records
    assert processed == {0: len(WORDS), 1: len(WORDS), 2: 2 * len(WORDS)}
    assert sum(n for r in reports for n, _ in r.traffic.values()) == 3 * len(WORDS)


def test_cpu_time_is_measured_per_key_group(tmp_path):
    reports = run_batch(work_of(tmp_path), WORDS)
    uses = [use for r in reports for use in r.groups.values()]
    assert all(0 < use.cpu_ns <= use.busy_ns * 1.5 + 1_000_000 for use in uses)


def test_a_repeated_stage_sends_and_stores_the_same(tmp_path):
    work = work_of(tmp_path)
    first = [run_node(work, node, 0, inbox)[1] for node, inbox in source(work, WORDS).items()]
    again = [run_node(work, node, 0, inbox)[1] for node, inbox in source(work, WORDS).items()]
    assert first == again


def test_a_record_at_the_wrong_owner_stops_the_task(tmp_path):
    work = work_of(tmp_path)
    owner = work.owner((0, 0))
    with pytest.raises(RuntimeError, match="is owned by"):
        run_node(work, (owner + 1) % 3, 0, {(0, 0): [Delivery(SOURCE, list)]})


def test_a_node_without_records_still_answers(tmp_path):
    report, blocks = run_node(work_of(tmp_path), 1, 0, {})
    assert (report.node, report.groups, blocks) == (1, {}, [])


def test_records_sent_where_no_edge_leads_are_not_dropped_silently(tmp_path):
    operators = [*OPERATORS[:2], Operator("total", lambda *_: [1], key=OPERATORS[2].key)]
    topology = build_topology(JOB, operators, policy_of(1))
    work = BatchWork(topology, ((0,) * 4, (0,) * 6, (0,) * 2), ("node-0",), 0, str(tmp_path))
    with pytest.raises(InvalidInput, match="no edge leaves"):
        run_node(work, 0, 0, source(work, ["a1"])[0])


def by_key(tmp_path, batch_id=0, routes=None, **changes):
    topology = topology_by_key()
    work = replace(work_of(tmp_path, batch_id), topology=topology, **changes)
    return replace(work, routes=lambda: routes) if routes else work


def test_keys_with_a_route_are_processed_in_the_key_group_it_names(tmp_path):
    routes = {"count": {"a1": 5, "b2": 0, "c3": 0}, "total": {"a": 1, "b": 1, "c": 1}}
    work = by_key(tmp_path, routes=routes)
    run_batch(work, WORDS)
    store = StateStore(tmp_path)
    for operator, routed in routes.items():
        for key, group in routed.items():
            owner = work.owner((work.topology.index[operator], group))
            assert key in store.read(work.node_ids[owner], operator, group)
    assert states(work, "count") == dict.fromkeys(WORDS, 5)
    assert states(work, "total") == {a: {"word": 100, "counted": 100} for a in "abc"}


ODD = ["", "o'clock", 'say "x"', "two\nlines", "\x00", "ü", "\udc80", "\ud800", "L" * 2**20]


def test_odd_keys_are_counted_once_and_broken_or_long_ones_go_by_hash(tmp_path):
    work = by_key(tmp_path)
    reports = run_batch(work, ODD * 2)
    assert states(work, "count") == dict.fromkeys(filter(None, ODD), 2)
    counts = Counter()
    for report in reports:
        if 1 in report.keys:
            counts.update(report.keys[1].counts)
    assert counts == dict.fromkeys(["o'clock", 'say "x"', "two\nlines", "\x00", "ü"], 2)


def figures_of(work, reports):
    policy = policy_of(len(work.node_ids))
    placement = first_placement(work.topology, policy)
    return figures_of_batch(0, reports, work.topology, placement, work.node_ids, {})


def test_keys_and_pairs_are_counted_on_every_edge_between_operators_by_key(tmp_path):
    work = by_key(tmp_path)
    measured = figures_of(work, run_batch(work, WORDS))
    words, letters = dict.fromkeys(WORDS, 5), dict.fromkeys("abc", 200)
    assert {name: dict(s.counts) for name, s in measured.keys.items()} == {
        "parse": words, "count": words, "total": letters,
    }  # fmt: skip
    assert {edge: dict(s.counts) for edge, s in measured.pairs.items()} == {
        ("parse", "count"): {(word, word): 5 for word in WORDS},
        ("parse", "total"): {(word, word[0]): 5 for word in WORDS},
        ("count", "total"): {(word, word[0]): 5 for word in WORDS},
    }
    assert all(s.others == s.missed == 0 for s in measured.pairs.values())


def test_nothing_is_counted_where_state_is_not_by_key_or_counting_is_off(tmp_path):
    for work in (work_of(tmp_path), by_key(tmp_path, counts_keys=False)):
        measured = figures_of(work, run_batch(work, WORDS))
        assert (measured.keys, measured.pairs) == ({}, {})


def test_serialising_is_a_part_of_the_cpu_time_and_only_between_nodes(tmp_path):
    uses = [u for r in run_batch(work_of(tmp_path), WORDS) for u in r.groups.values()]
    for use in uses:
        assert (use.wire_ns > 0) == (use.bytes_in + use.bytes_out > 0)
        assert use.wire_ns < use.cpu_ns
    measured = figures_of(work_of(tmp_path), run_batch(work_of(tmp_path, 1), WORDS))
    assert all(g.wire_ms < g.cpu_ms for g in measured.groups.values() if g.records)
    assert sum(g.wire_ms for g in measured.groups.values()) > 0
    alone = run_batch(work_of(tmp_path / "one", nodes=1), WORDS)
    assert sum(u.wire_ns for r in alone for u in r.groups.values()) == 0


def run_total(work):
    """Both levels of a batch whose records all go to ``total``; returns reports and state."""
    reports, blocks = [], {node: [] for node in range(3)}
    words = [word for word in WORDS if word[0] == "a"]
    for node in range(3):
        report, sent = run_node(work, node, 0, source(work, words)[node])
        reports.append(report)
        for block in sent:
            blocks[work.owner(block.target)].append(block)
    for stage in (1, 2):
        following = {node: [] for node in range(3)}
        for node in range(3):
            inbox = {}
            for block in blocks[node]:
                part = Delivery(block.sender, lambda b=block: unpack(b.payload), 1)
                inbox.setdefault(block.target, []).append(part)
            report, sent = run_node(work, node, stage, inbox)
            reports.append(report)
            for block in sent:
                following[work.owner(block.target)].append(block)
        blocks = following
    return reports, len(words)


def test_the_records_of_a_split_key_take_turns_over_its_key_groups_and_are_counted_once(tmp_path):
    work = by_key(tmp_path, splits={"total": {"a": (0, 1)}})
    reports, words = run_total(work)
    placed = replace(first_placement(topology_by_key(), policy_of()),
                     splits={"total": {"a": (0, 1)}})  # fmt: skip
    figures = figures_of_batch(0, reports, work.topology, placed, work.node_ids, {})
    parts = [figures.groups["total", group].records for group in (0, 1)]
    assert sum(parts) == 2 * words
    assert abs(parts[0] - parts[1]) <= 2 * 6, "each node and stage deals in turn"
    assert figures.keys["total"].counts == {"a": 2 * words}
    store = StateStore(tmp_path)
    found = [store.read(placed.node_of("total", group), "total", group)["a"] for group in (0, 1)]
    assert {kind: sum(part[kind] for part in found) for kind in ("word", "counted")} == {
        "word": words, "counted": words,
    }  # fmt: skip


def test_a_repeated_batch_deals_the_records_of_a_split_key_as_the_first_attempt(tmp_path):
    work = by_key(tmp_path, splits={"total": {"a": (0, 1)}})
    first, second = (run_total(work)[0] for _ in range(2))
    assert [report.traffic for report in first] == [report.traffic for report in second]
