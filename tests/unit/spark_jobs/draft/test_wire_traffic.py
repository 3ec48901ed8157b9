"""Bytes between nodes under another placement."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.draft.wire_traffic import wire_of


def traffic(*rows):
    names = (
        "from_operator_id", "from_key_group", "to_operator_id", "to_key_group", "records_per_s",
        "bytes_per_s",
    )  # fmt: skip
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


TRAFFIC = traffic(
    ("a", 0, "b", 0, 10.0, 1000.0),  # apart: 100 bytes a record
    ("a", 1, "b", 1, 10.0, 0.0),  # together
    ("a", 0, "c", 0, 10.0, 200.0),  # apart: 20 bytes a record
)
NOW = {"a/0": "n0", "b/0": "n1", "a/1": "n0", "b/1": "n0", "c/0": "n1"}


def test_the_placement_as_it_is_has_the_bytes_measured():
    wire = wire_of(TRAFFIC)
    assert wire.bytes_per_s == 1200.0
    assert wire.bytes_under(NOW) == 1200.0


def test_what_comes_together_sends_nothing():
    assert wire_of(TRAFFIC).bytes_under({**NOW, "b/0": "n0", "c/0": "n0"}) == 0.0


def test_what_parts_is_weighed_like_its_operators_records():
    assert wire_of(TRAFFIC).bytes_under({**NOW, "b/1": "n1"}) == 1200.0 + 10 * 100.0


def test_operators_that_were_never_apart_are_weighed_like_the_rest():
    rows = traffic(("a", 0, "b", 0, 10.0, 1000.0), ("b", 0, "c", 0, 10.0, 0.0))
    placed = {"a/0": "n0", "b/0": "n1", "c/0": "n0"}
    assert wire_of(rows).bytes_under(placed) == pytest.approx(2000.0)


def test_no_traffic_has_no_bytes():
    wire = wire_of(TRAFFIC.slice(0, 0))
    assert (wire.flows, wire.bytes_per_s, wire.bytes_under({})) == ((), 0, 0)
