"""The demonstration's table, and what counts as not shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from embedded.flink_report import FlinkRun, ShownVersion, report_lines, shortcomings
from examples.visits.check import VisitCounts

FIRST = ShownVersion(1, "plan, approved", 5, 480.0, 2400.0, 2300.0, 650.0, "count 1 to 5")
BACK = replace(FIRST, version=3, what="rollback to 1", promised=None)
RUN = FlinkRun(1, 5000, 100, (FIRST, BACK), VisitCounts(90_000, 0, 0, 120))


def test_a_run_that_shows_everything_has_no_shortcoming() -> None:
    assert shortcomings(RUN) == []


def test_the_table_has_each_version_with_its_figures() -> None:
    text = "\n".join(report_lines(RUN))
    for part in ("2400", "2300", "650 ms", "rollback to 1", "lost 0, doubled 0", "5,000 visits"):
        assert part in text
    assert "-" in report_lines(RUN)[4]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"counts": VisitCounts(9, 1, 0, 0)}, "exact counts: lost 1"),
        ({"counts": VisitCounts(9, 0, 2, 0)}, "doubled 2"),
        ({"counts": VisitCounts(0, 0, 0, 0)}, "exact counts"),
        ({"versions": (replace(FIRST, size=1), BACK)}, "more subtasks"),
        ({"versions": (FIRST,)}, "a rollback"),
        ({"backlog_after": 5000}, "a backlog that shrinks"),
        ({"versions": (replace(FIRST, measured=1000.0), BACK)}, "1000 measured"),
        ({"versions": (replace(FIRST, measured=None), BACK)}, "a measured capacity"),
        ({"versions": ()}, "more subtasks"),
    ],
)
def test_what_was_not_shown_is_named(changes: dict[str, Any], named: str) -> None:
    assert any(named in each for each in shortcomings(replace(RUN, **changes)))
