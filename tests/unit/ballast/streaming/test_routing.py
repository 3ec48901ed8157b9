"""Key groups of keys, the first placement, moves."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from ballast.contracts.identity import content_hash, is_routable
from ballast.streaming.routing import (
    KeyTransfer,
    Move,
    Placement,
    first_placement,
    key_group_of,
    key_transfers_between,
    moves_between,
    node_indexes,
    taking_turns,
)
from tests.support.streaming_parts import policy_of, topology_of


@given(st.text(), st.integers(1, 1000))
def test_a_key_group_is_the_checksum_of_the_key_modulo_their_number(key, key_groups):
    assert key_group_of(key, key_groups) == zlib.crc32(key.encode()) % key_groups


@given(st.binary(max_size=40))
def test_bytes_that_are_no_utf8_keep_the_key_group_that_spark_gives_them(data):
    key = data.decode("utf-8", "surrogateescape")
    assert key_group_of(key, 1000) == zlib.crc32(data) % 1000


@pytest.mark.parametrize(
    ("key", "routable"),
    [("", True), ("o'clock \"x\"", True), ("two\nlines\x00", True), ("x" * 1024, True),
     ("x" * 1025, False), ("ü" * 512, True), ("ü" * 513, False), ("x" * 2**20, False),
     ("\udc80", False), ("\ud800x", False)],
)  # fmt: skip
def test_any_text_may_be_routed_but_for_long_and_broken_keys_which_go_by_hash(key, routable):
    assert is_routable(key) == routable
    assert 0 <= key_group_of(key, 7) < 7


def test_a_key_goes_by_its_route_and_without_one_by_its_hash():
    routed = Placement(1, "p", {"count": ("a", "b")}, {"count": {"k": 1, "l": 0}})
    assert [routed.group_of("count", key) for key in "kl"] == [1, 0]
    assert routed.group_of("count", "m") == key_group_of("m", 2)
    assert routed.routes_of("other") == {}


def test_keys_move_when_their_key_group_changes_and_not_when_only_their_route_does():
    nodes = {"parse": ("a",), "count": ("a", "b")}
    hashed = key_group_of("k", 2)
    other = 1 - hashed
    plain = Placement(0, "", nodes)
    routed = Placement(1, "p", nodes, {"count": {"k": other, "same": key_group_of("same", 2)}})
    there = KeyTransfer("count", "k", hashed, other, "ab"[hashed], "ab"[other])
    back = KeyTransfer("count", "k", other, hashed, "ab"[other], "ab"[hashed])
    assert key_transfers_between(plain, routed, ("parse", "count")) == [there]
    assert key_transfers_between(routed, plain, ("parse", "count")) == [back]
    assert key_transfers_between(routed, routed, ("parse", "count")) == []


def test_routes_are_part_of_the_identity_of_a_placement():
    nodes = {"parse": ("a", "b")}
    routed = Placement(1, "p", nodes, {"parse": {"k": 1}})
    assert routed.content_hash == content_hash(
        [("parse", 0, "a"), ("parse", 1, "b")], [("parse", "k", 1)]
    )
    assert routed.content_hash != Placement(1, "p", nodes).content_hash
    assert Placement(1, "p", nodes, {"parse": {}}).content_hash == (
        Placement(1, "p", nodes).content_hash
    )


def test_the_first_placement_depends_on_names_alone():
    placement = first_placement(topology_of(), policy_of())
    assert placement == first_placement(topology_of(), policy_of())
    assert placement.version == 0
    assert [len(placement.nodes[name]) for name in ("parse", "count", "total")] == [4, 6, 2]
    assert placement.node_of("parse", 1) == f"node-{zlib.crc32(b'parse/1') % 3}"


def test_a_draining_node_gets_nothing_at_the_first_placement():
    policy = policy_of(nodes=[{"id": "a"}, {"id": "b", "draining": True}, {"id": "c"}])
    placement = first_placement(topology_of(), policy)
    used = {node for nodes in placement.nodes.values() for node in nodes}
    assert used == {"a", "c"}


def test_moves_follow_the_order_of_the_operators():
    old = Placement(0, "", {"parse": ("a", "a"), "count": ("a",)})
    new = Placement(1, "p", {"parse": ("a", "b"), "count": ("b",)})
    expected = [Move("parse", 1, "a", "b"), Move("count", 0, "a", "b")]
    assert moves_between(old, new, ("parse", "count")) == expected
    assert moves_between(old, new, ("count", "parse")) == expected[::-1]


def test_a_placement_has_the_identity_of_its_rows():
    placement = Placement(1, "p", {"parse": ("a", "b")})
    assert placement.content_hash == content_hash([("parse", 1, "b"), ("parse", 0, "a")])


def test_a_node_that_left_the_policy_while_it_holds_key_groups_is_an_error():
    placement = first_placement(topology_of(), policy_of(3))
    with pytest.raises(InvalidInput, match=r"node 'node-\d' holds key groups.*draining: true"):
        node_indexes(placement, topology_of(), ("node-0",))


def test_node_numbers_are_partitions():
    placement = first_placement(topology_of(), policy_of(3))
    routes = node_indexes(placement, topology_of(), ("node-0", "node-1", "node-2"))
    assert all(0 <= node < 3 for route in routes for node in route)


def test_nodes_take_turns_at_being_first_and_none_is_lost() -> None:
    nodes = ("a", "b", "c")
    orders = [taking_turns(nodes, batch) for batch in range(6)]
    assert orders[:3] == [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")]
    assert orders[3:] == orders[:3]
