"""Consistent hashing with virtual nodes: [DODO, 7.1.3]."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.place import HashRing
from solvers.place.hash_ring import position

KEYS = [f"key-{i}" for i in range(20_000)]


def nodes(count: int) -> dict[str, float]:
    return {f"n{i}": 1.0 for i in range(count)}


def test_adding_a_node_moves_about_its_share_and_only_to_it() -> None:
    before, after = HashRing(nodes(9)).place(KEYS), HashRing(nodes(10)).place(KEYS)
    moved = [k for k in KEYS if before[k] != after[k]]
    assert {after[k] for k in moved} == {"n9"}
    assert len(moved) / len(KEYS) == pytest.approx(0.1, abs=0.02)


def test_removing_a_node_moves_its_keys_and_no_others() -> None:
    before = HashRing(nodes(10)).place(KEYS)
    after = HashRing({n: 1.0 for n in nodes(10) if n != "n3"}).place(KEYS)
    assert all((before[k] != after[k]) == (before[k] == "n3") for k in KEYS)


def test_virtual_nodes_make_it_even() -> None:
    few = Counter(HashRing(nodes(10), points=1).place(KEYS).values())
    many = Counter(HashRing(nodes(10)).place(KEYS).values())
    mean = len(KEYS) / 10
    assert max(many.values()) / mean < 1.2
    assert max(many.values()) < max(few.values())


def test_a_larger_node_gets_more() -> None:
    counts = Counter(HashRing({"a": 1.0, "b": 3.0}).place(KEYS).values())
    assert counts["b"] / counts["a"] == pytest.approx(3, rel=0.25)


@given(st.permutations(["a", "b", "c", "d"]))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_the_order_of_the_nodes_does_not_matter(order: list[str]) -> None:
    keys = KEYS[:300]
    assert HashRing(dict.fromkeys(order, 1.0)).place(keys) == HashRing(
        dict.fromkeys("abcd", 1.0)
    ).place(keys)


def test_positions_never_change() -> None:
    """If a ring changed with an upgrade, nearly everything would move."""
    assert position("key-0") == 0x8655DB8F4C7D5137


def test_a_ring_needs_a_node_with_capacity() -> None:
    with pytest.raises(InvalidInput, match="needs a node"):
        HashRing({})
    with pytest.raises(InvalidInput, match="capacity"):
        HashRing({"a": 0.0})
