"""Records have the columns of their tables, and do not change when converted to rows and back."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, fields
from datetime import UTC, datetime

import pytest

from ballast.contracts import records
from ballast.contracts.records import DraftSummary, Head, Record, ScalingRow, field_names
from ballast.contracts.tables import TABLES

TYPES = {
    "string": "str",
    "long": "int",
    "double": "float",
    "date": "date",
    "timestamp": "datetime",
    "array<string>": "tuple[str, ...]",
}
RECORDS = [
    record
    for record in vars(records).values()
    if isinstance(record, type)
    and issubclass(record, Record)
    and record not in (Record, DraftSummary)
]
AT = datetime(2026, 11, 18, tzinfo=UTC)
HEAD = Head(job="clicks", version=3, plan_id="p", content_hash="h", run_id="r", published_at=AT)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_record_has_the_columns_of_its_table(record: type[Record]) -> None:
    table = TABLES[record.table]
    assert field_names(record) == table.column_names
    assert {field.name for field in fields(record)} == set(table.column_names)  # type: ignore[arg-type]
    for field in fields(record):  # type: ignore[arg-type]
        column = table.column(field.name)
        wanted = TYPES[column.type] + (" | None" if column.nullable else "")
        assert field.type == wanted, field.name
        assert (field.default is None) == column.nullable, field.name
        assert column.nullable or field.default is MISSING, field.name


def test_a_record_survives_the_way_through_a_row() -> None:
    assert Head.from_row(HEAD.to_row()) == HEAD


def test_columns_that_an_earlier_version_did_not_write_are_none() -> None:
    row = {
        "job": "clicks", "plan_id": "p", "subject": "node", "subject_id": "n", "action": "keep",
        "reason": "", "binding": "", "would_change": "", "period_end_at": AT, "decided_at": AT,
        "due": ["a/1"],
    }  # fmt: skip
    read = ScalingRow.from_row(row)
    assert read.wanted is None
    assert read.due == ("a/1",)


def test_a_missing_column_that_may_not_be_null_is_an_error() -> None:
    with pytest.raises(TypeError, match="version"):
        Head.from_row({"job": "clicks"})


def test_columns_that_a_later_version_added_are_ignored() -> None:
    assert Head.from_row({**HEAD.to_row(), "later": 1}) == HEAD


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        HEAD.version = 4  # type: ignore[misc]
