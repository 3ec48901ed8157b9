"""Routing tables with hash fallback."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.routing_table import RoutingTable, hash_server, moved_keys
from tests.unit.solvers.key_routing.instances import QUICK


@given(
    keys=st.dictionaries(st.binary(max_size=6), st.integers(0, 4), max_size=30),
    limit=st.none() | st.integers(0, 10),
)
@QUICK
def test_a_table_routes_its_keys_and_hashes_the_rest(
    keys: dict[bytes, int], limit: int | None
) -> None:
    weights = {key: float(len(key)) for key in keys}
    table = RoutingTable.build(5, keys, weights, limit)
    assert limit is None or len(table) <= limit
    wrong = [key for key, server in keys.items() if table.route(key) != server]
    if limit is None:
        assert wrong == []
    assert all(table.route(key) == hash_server(key, 5) for key in wrong)
    names = [*keys, b"stranger"]
    assert table.route_many(names).tolist() == [table.route(key) for key in names]


def test_a_bounded_table_keeps_the_heaviest_keys() -> None:
    keys = {f"k{i}".encode(): (hash_server(f"k{i}".encode(), 3) + 1) % 3 for i in range(100)}
    weights = {key: float(i) for i, key in enumerate(keys)}
    table = RoutingTable.build(3, keys, weights, max_keys=10)
    kept = [key for key, server in keys.items() if table.route(key) == server]
    assert kept == list(keys)[-10:]


def test_a_million_keys_take_ten_bytes_each() -> None:
    table = RoutingTable(
        7, np.arange(1_000_000, dtype=np.uint64), np.zeros(1_000_000, dtype=np.uint16)
    )
    assert table.n_bytes == 10_000_000


@pytest.mark.parametrize(
    ("prints", "servers"), [([2, 1], [0, 0]), ([1, 1], [0, 0]), ([1], [9]), ([1], [])]
)
def test_a_broken_table_is_refused(prints: list[int], servers: list[int]) -> None:
    with pytest.raises(InvalidInput):
        RoutingTable(3, np.array(prints, dtype=np.uint64), np.array(servers, dtype=np.uint16))


def test_what_moves_is_what_is_routed_elsewhere() -> None:
    before = RoutingTable.hashed(4)
    there = (hash_server(b"a", 4) + 1) % 4
    after = RoutingTable.build(4, {b"a": there, b"b": hash_server(b"b", 4)})
    assert moved_keys(before, after, [b"a", b"b"]) == [(b"a", hash_server(b"a", 4), there)]
