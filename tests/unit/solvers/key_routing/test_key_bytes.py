"""Any text and any bytes are a key, of any length."""

from __future__ import annotations

import pytest

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_bytes import LONGEST_KEY, key_bytes
from solvers.key_routing.pair_statistics import PairStatistics
from solvers.key_routing.routing_table import RoutingTable, hash_server

STRANGE_KEYS = [
    b"",
    b"'; DROP TABLE plans; --",
    b'"quoted"\n\r\n\t',
    b"\xff\xfe\x00 not utf-8",
    "\udcff surrogate".encode("utf-8", "surrogateescape"),
    b"x" * (1 << 20),
]


@pytest.mark.parametrize("key", STRANGE_KEYS)
def test_any_bytes_are_a_key(key: bytes) -> None:
    other = (hash_server(key_bytes(key), 6) + 1) % 6
    table = RoutingTable.build(6, {key: other})
    assert table.route(key) == other
    assert table.n_bytes == 10
    assert table.route(key + b"!") == hash_server(key_bytes(key + b"!"), 6)


def test_a_key_of_a_mebibyte_takes_little_memory_in_statistics() -> None:
    long, longer = b"x" * (1 << 20), b"x" * ((1 << 20) + 1)
    assert len(key_bytes(long)) <= LONGEST_KEY
    assert key_bytes(long) != key_bytes(longer)
    statistics = PairStatistics.empty(4, 4)
    statistics.observe(long, "b")
    assert statistics.left.estimate(key_bytes(long)).count == 1


def test_text_with_a_lone_surrogate_is_a_key() -> None:
    assert key_bytes("\ud800") == b"\xed\xa0\x80"
    assert key_bytes("\udcff") == b"\xff"
    assert len({key_bytes(key) for key in ("\ud800", "\udfff", "\ud800\udcff", "?")}) == 4


def test_text_and_its_bytes_are_the_same_key() -> None:
    assert key_bytes("Zürich") == "Zürich".encode()
    with pytest.raises(InvalidInput):
        key_bytes(7)  # type: ignore[arg-type]
