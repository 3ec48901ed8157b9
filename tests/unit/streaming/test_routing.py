"""Key groups of keys, the first placement, moves."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from ballast.contracts.identity import content_hash
from ballast.streaming.routing import (
    Move,
    Placement,
    first_placement,
    key_group_of,
    moves_between,
    node_indexes,
    taking_turns,
)
from tests.support.streaming_parts import policy_of, topology_of


@given(st.text(), st.integers(1, 1000))
def test_a_key_group_is_the_checksum_of_the_key_modulo_their_number(key, key_groups):
    assert key_group_of(key, key_groups) == zlib.crc32(key.encode()) % key_groups


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
