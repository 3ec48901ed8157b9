"""Pages of rows that are in no order, over several files and row groups."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from ballast.store import paging
from ballast.store.paging import Order, PageRange, read_page

ORDERS = [Order(("name", "number")), Order(("name", "number"), descending="size")]


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    made = [
        {"job": job, "name": f"n{i % 7}", "number": i, "size": (i * 37) % 50}
        for job in ("a", "b")
        for i in range(500)
    ]
    random.Random(1).shuffle(made)
    return made


@pytest.fixture(scope="module")
def table(rows: list[dict], tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    folder = tmp_path_factory.mktemp("table") / "t"
    for part in (rows[:300], rows[300:]):
        write_deltalake(
            folder, pa.Table.from_pylist(part), mode="append", partition_by=["job"],
            writer_properties=WriterProperties(max_row_group_size=32),
        )  # fmt: skip
    return DeltaTable(folder)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("limit", [1, 33, 499, 500, 1000])
def test_pages_of_unordered_files_are_in_order_and_complete(
    table: DeltaTable, rows: list[dict], order: Order, limit: int
) -> None:
    expected = sorted((row for row in rows if row["job"] == "a"), key=order.key_of)
    found: list[dict] = []
    after = None
    pages = 0
    while True:
        page = read_page(table, "a", where=[], order=order, span=PageRange(limit, after))
        found += page.rows
        after = page.after
        pages += 1
        if after is None or (limit == 1 and pages > 20):
            break
    assert found == expected[: len(found)]
    assert limit == 1 or len(found) == 500


def test_rows_in_order_are_read_from_the_groups_of_their_page_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordered = [{"job": "a", "name": "n", "number": i, "size": 1} for i in range(1000)]
    write_deltalake(
        tmp_path / "t", pa.Table.from_pylist(ordered), partition_by=["job"],
        writer_properties=WriterProperties(max_row_group_size=100),
    )  # fmt: skip
    read: list[int] = []
    first = paging._first
    monkeypatch.setattr(
        paging, "_first", lambda rows, *rest: read.append(rows.num_rows) or first(rows, *rest)
    )
    page = read_page(
        DeltaTable(tmp_path / "t"), "a", where=[], order=ORDERS[0], span=PageRange(10, ("n", 649))
    )
    assert [row["number"] for row in page.rows] == list(range(650, 660))
    assert len(read) == 1
