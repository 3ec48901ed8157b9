"""A plan is checked against the job's own world; what does not fit is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ballast.contracts.errors import InvalidInput, PlanRefused
from ballast.contracts.identity import content_hash
from ballast.contracts.records import Head
from ballast.store.plan_content import PublishedContent
from ballast.streaming.plan_check import (
    check_keeps_merges,
    check_keeps_routes,
    checked_placement,
)
from ballast.streaming.routing import Placement, first_placement, key_group_of
from tests.support.streaming_parts import JOB, policy_of, topology_by_key, topology_of

POLICY = policy_of()
TOPOLOGY = topology_of()
CURRENT = first_placement(TOPOLOGY, POLICY)


def plan(change=lambda rows: rows):
    rows = change([(o, g, "node-1") for o, g in TOPOLOGY.all_key_groups])
    head = Head(JOB, 3, "plan", content_hash(rows), "run", datetime.now(UTC))
    return head, rows


def check(head, rows, policy=POLICY):
    return checked_placement(head, PublishedContent(rows), TOPOLOGY, policy, CURRENT)


def test_a_whole_plan_is_taken_with_its_version():
    head, rows = plan()
    placement = check(head, rows)
    assert (placement.version, placement.plan_id) == (3, "plan")
    assert placement.nodes["count"] == ("node-1",) * 6
    assert placement.content_hash == head.content_hash


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: rows[1:], "parse/0 not"),
        (lambda rows: [*rows, rows[0]], "parse/0 twice"),
        (lambda rows: [*rows, ("parse", 4, "node-1")], "parse/4 unknown"),
        (lambda rows: [*rows, ("ghost", 0, "node-1")], "ghost/0 unknown"),
        (lambda rows: [("parse", 0, "node-9"), *rows[1:]], "unknown node node-9"),
        (lambda _: [], "parse/0|not"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_is_refused(change, reason):
    with pytest.raises(PlanRefused, match=reason):
        check(*plan(change))


def test_a_content_that_is_not_what_the_head_promises_is_refused():
    head, rows = plan()
    with pytest.raises(PlanRefused, match="content hash"):
        check(replace(head, content_hash="0" * 64), rows)
    with pytest.raises(PlanRefused, match="content hash"):
        check(head, [(*rows[0][:2], "node-2"), *rows[1:]])


def test_nothing_new_goes_to_a_draining_node():
    nodes = [{"id": "node-0"}, {"id": "node-1", "draining": True}, {"id": "node-2"}]
    with pytest.raises(PlanRefused, match="onto a draining node"):
        check(*plan(), policy=policy_of(nodes=nodes))


BY_KEY = topology_by_key()


def check_routes(routes, topology=BY_KEY, policy=POLICY):
    head, rows = plan()
    head = replace(head, content_hash=content_hash(rows, routes))
    return checked_placement(head, PublishedContent(rows, routes), topology, policy, CURRENT)


def test_routes_are_taken_with_the_plan_whatever_their_keys():
    keys = ["", "o'clock", 'say "x"', "two\nlines", "\x00", "x" * 1024]
    placement = check_routes([("count", key, 5) for key in keys])
    assert placement.routes == {"count": dict.fromkeys(keys, 5)}


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        (("ghost", "a", 0), "'ghost' is unknown"),
        (("count", "a", 6), "key group 6 is not one of 0 to 5"),
        (("count", "a", -1), "key group -1"),
        (("count", "taken", 1), "another route"),
        (("count", "x" * 1025, 0), r"'x{40}\.\.\.' of count.*longer than 1024 bytes"),
        (("count", "x" * 2**20, 0), "longer than 1024 bytes"),
        (("count", "\udc80", 0), "no UTF-8"),
    ],
)
def test_a_route_that_does_not_fit_is_refused_with_the_reason(route, reason):
    with pytest.raises(PlanRefused, match=reason):
        check_routes([("count", "taken", 0), route])


def test_routes_of_an_operator_that_keeps_more_than_state_by_key_are_refused():
    with pytest.raises(PlanRefused, match="count does not keep its state by key"):
        check_routes([("count", "a", 0)], TOPOLOGY)


def test_routes_that_the_head_does_not_promise_are_refused():
    head, rows = plan()
    content = PublishedContent(rows, [("count", "a", 0)])
    with pytest.raises(PlanRefused, match="content hash"):
        checked_placement(head, content, BY_KEY, POLICY, CURRENT)


def test_no_key_is_routed_onto_a_draining_node():
    nodes = [{"id": "node-0", "draining": True}, {"id": "node-1"}, {"id": "node-2"}]
    policy = policy_of(nodes=nodes)
    groups = BY_KEY.all_key_groups
    home = key_group_of("k", 6)
    other = (home + 1) % 6
    current = Placement(0, "", {
        name: tuple("node-0" if (name, g) == ("count", other) else "node-1"
                    for n, g in groups if n == name)
        for name in BY_KEY.ids
    })  # fmt: skip
    rows = [(name, g, current.node_of(name, g)) for name, g in groups]
    routes = [("count", "k", other)]
    head = Head(JOB, 3, "plan", content_hash(rows, routes), "run", datetime.now(UTC))
    with pytest.raises(PlanRefused, match="key 'k' of count onto the draining node node-0"):
        checked_placement(head, PublishedContent(rows, routes), BY_KEY, policy, current)


def test_an_operator_may_not_stop_keeping_its_state_by_key_while_its_keys_are_routed():
    routed = replace(CURRENT, routes={"count": {"k": 1}})
    check_keeps_routes(routed, BY_KEY)
    check_keeps_routes(CURRENT, TOPOLOGY)
    with pytest.raises(InvalidInput, match=r"routes keys of count.*state_by_key=True"):
        check_keeps_routes(routed, TOPOLOGY)


SCALED = {"nodes": [{"id": "node-0"}, {"id": "node-1"}, {"id": "node-2", "spare": True}]}


def scaled_check(node_of, actions, current=None):
    policy = policy_of(3, **SCALED, scaling={})
    topology = topology_of(policy)
    rows = [
        (operator, group, node_of(operator, group)) for operator, group in topology.all_key_groups
    ]
    scaling = [("node", name, action, None) for name, action in actions.items()]
    head = Head(JOB, 3, "plan", content_hash(rows, (), scaling), "run", datetime.now(UTC))
    before = current or first_placement(topology, policy)
    content = PublishedContent(rows, scaling=scaling)
    return checked_placement(head, content, topology, policy, before)


def test_a_plan_may_add_a_spare_node_and_place_on_it():
    actions = {"node-0": "keep", "node-1": "keep", "node-2": "add"}
    placement = scaled_check(lambda operator, group: f"node-{group % 3}", actions)
    assert set(placement.nodes["count"]) == {"node-0", "node-1", "node-2"}
    assert placement.scaling == tuple(("node", n, a, None) for n, a in actions.items())


@pytest.mark.parametrize(
    ("node", "action", "words"),
    [
        ("node-2", "spare", "does not use"),
        ("node-2", "remove", "does not use"),
        ("node-2", "drain", "onto a draining node"),
        ("node-9", "add", "adds or keeps the unknown node node-9"),
    ],
)
def test_a_plan_that_places_on_nodes_it_does_not_use_is_refused(node, action, words):
    actions = {"node-0": "keep", "node-1": "keep", node: action}
    with pytest.raises(PlanRefused, match=words):
        scaled_check(lambda operator, group: f"node-{group % 3}", actions)


def test_scaling_is_part_of_the_hash_that_the_job_checks():
    policy = policy_of(3)
    topology = topology_of(policy)
    placement = first_placement(topology, policy)
    rows = [(o, g, placement.node_of(o, g)) for o, g in topology.all_key_groups]
    head = Head(JOB, 3, "plan", placement.content_hash, "run", datetime.now(UTC))
    scaling = [("node", "node-0", "drain", None)]
    content = PublishedContent(rows, scaling=scaling)
    with pytest.raises(PlanRefused, match="content hash"):
        checked_placement(head, content, topology, policy, placement)


HOME_A = key_group_of("a", 2)
BOTH = [("total", "a", 0), ("total", "a", 1)]


def check_splits(splits, policy=POLICY, current=None):
    topology = topology_by_key(policy)
    rows = [(o, g, "node-1") for o, g in topology.all_key_groups]
    head = Head(JOB, 3, "plan", content_hash(rows, splits=splits), "run", datetime.now(UTC))
    content = PublishedContent(rows, splits=splits)
    current = current or replace(CURRENT, version=1)
    return checked_placement(head, content, topology, policy, current)


def test_a_plan_with_splits_is_taken_with_the_parts_of_each_key():
    placement = check_splits(list(reversed(BOTH)))
    assert placement.splits == {"total": {"a": (0, 1)}}
    assert placement.parts_of("total", "a") == (0, 1)
    assert placement.parts_of("total", "b") == (key_group_of("b", 2),)


@pytest.mark.parametrize(
    ("splits", "reason"),
    [
        ([("ghost", "a", 0)], "operator 'ghost' is unknown"),
        ([("count", "a", 0), ("count", "a", 1)], "count does not declare how partial states merge"),
        ([("total", "x" * 1025, 0)], "longer than 1024 bytes"),
        ([*BOTH, ("total", "a", 2)], "key group 2 is not one of 0 to 1"),
        ([*BOTH, BOTH[0]], "key group 0 is given twice"),
        ([("total", "a", HOME_A)], "allowed: two or more"),
    ],
)
def test_a_plan_whose_splits_do_not_fit_is_refused(splits, reason):
    with pytest.raises(PlanRefused, match=reason):
        check_splits(splits)


def test_a_split_onto_a_draining_node_is_refused_unless_the_part_is_there():
    nodes = [{"id": f"node-{n}", "draining": n == 1} for n in range(3)]
    policy = policy_of(nodes=nodes)
    there = replace(CURRENT, nodes={o: ("node-1",) * len(n) for o, n in CURRENT.nodes.items()})
    with pytest.raises(PlanRefused, match="onto the draining node node-1"):
        check_splits(BOTH, policy, there)
    split = replace(there, splits={"total": {"a": (0, 1)}})
    assert check_splits(BOTH, policy, split).splits == split.splits
    assert check_splits([], policy, split).splits == {}


def test_an_operator_whose_keys_are_split_keeps_its_merge_function():
    split = replace(CURRENT, splits={"total": {"a": (0, 1)}})
    check_keeps_merges(split, topology_by_key())
    with pytest.raises(InvalidInput, match="no longer declares how partial states merge"):
        check_keeps_merges(split, TOPOLOGY)
