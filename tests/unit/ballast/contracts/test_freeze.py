"""Freezes: local calendar times with an end, and which one holds at a time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from ballast.contracts.errors import PolicyError
from ballast.contracts.freeze import FreezePolicy, active_freeze, freeze_text
from tests.support.policies import small_policy


def freeze(begin: Any = "2026-12-24", end: Any = "2027-01-01", **fields: Any) -> FreezePolicy:
    return FreezePolicy(name="holidays", begin=begin, end=end, **fields)


def test_a_date_as_the_end_includes_that_day_in_the_zone_of_the_freeze() -> None:
    found = freeze(time_zone="Europe/Copenhagen")
    assert found.begins_at == datetime(2026, 12, 23, 23, tzinfo=UTC)
    assert found.ends_at == datetime(2027, 1, 1, 23, tzinfo=UTC)


def test_a_time_as_the_end_is_the_first_moment_after_the_freeze() -> None:
    found = freeze("2026-12-24 18:00", "2026-12-27 06:00")
    assert active_freeze([found], datetime(2026, 12, 27, 5, 59, tzinfo=UTC)) == found
    assert active_freeze([found], datetime(2026, 12, 27, 6, tzinfo=UTC)) is None
    assert active_freeze([found], datetime(2026, 12, 24, 17, 59, tzinfo=UTC)) is None


def test_clocks_that_change_within_a_freeze_do_not_move_its_end() -> None:
    found = freeze("2026-10-24", "2026-10-25", time_zone="Europe/Copenhagen")
    assert (found.ends_at - found.begins_at).total_seconds() == 49 * 3600


def test_of_overlapping_freezes_the_one_that_ends_last_holds() -> None:
    short, long = freeze("2026-12-24", "2026-12-25"), freeze("2026-12-20", "2027-01-05")
    assert active_freeze([short, long], datetime(2026, 12, 24, 12, tzinfo=UTC)) == long


def test_dates_that_yaml_has_read_are_taken_as_they_were_written() -> None:
    found = freeze(date(2026, 12, 24), datetime.fromisoformat("2026-12-27 06:00"))
    assert (found.begin, found.end) == ("2026-12-24", "2026-12-27 06:00:00")


def test_the_words_have_reason_end_and_zone() -> None:
    found = freeze(time_zone="Europe/Copenhagen", reason="year end")
    assert freeze_text(found) == (
        "freeze holidays (year end) until 2027-01-02 00:00 Europe/Copenhagen"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"begin": "2026-12-24"}, r"freezes\.0\.end: is missing"),
        ({"begin": "2026-12-24", "end": None}, r"freezes\.0\.end: is None; it must be a date"),
        ({"begin": "2026-12-24", "end": "never"}, r"freezes\.0\.end: is 'never'"),
        ({"begin": "2026-12-24", "end": "2026-12-23"}, "it must be after begin, 2026-12-24"),
        ({"begin": "2026-12-24T00:00Z", "end": "2026-12-25"}, r"freezes\.0\.begin.*has a zone"),
        (
            {"begin": "2026-12-24", "end": "2026-12-25", "time_zone": "Mars"},
            "time_zone is 'Mars'; it must be a zone like UTC",
        ),
    ],
)
def test_a_policy_refuses_a_freeze_with_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        small_policy(freezes=[{"name": "holidays", **fields}])


def test_two_freezes_of_one_name_are_refused() -> None:
    one = {"name": "a", "begin": "2026-12-24", "end": "2026-12-25"}
    with pytest.raises(PolicyError, match="freezes: 'a' is given twice"):
        small_policy(freezes=[one, one])
