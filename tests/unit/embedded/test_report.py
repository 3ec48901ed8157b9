"""The demonstration passes exactly when it shows what it must."""

from __future__ import annotations

from dataclasses import replace

import pytest

from embedded.report import Findings, report_lines, shortcomings

GOOD = Findings(
    job="flights", version=1, plan_id="abc", before_pct=40.0, promised_pct=1.0, measured_pct=3.0,
    bound_pct=0.5, method="milp", status="feasible", moves=12, moved_key_groups=12,
    state_bytes=1000, bytes_moved=1010, pause_ms=4.2, batch_id=31, windows=12,
    stage_seconds={"measure": 5.0, "condense": 30.0}, peak_memory_bytes=3 * 2**30,
    sums_equal=True, sums_text="all equal",
)  # fmt: skip


def test_a_plan_that_kept_its_promise_passes() -> None:
    assert shortcomings(GOOD) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"measured_pct": 20.1, "promised_pct": 19.0}, "more than half"),
        ({"measured_pct": 6.1}, "5 points above"),
        ({"sums_equal": False, "sums_text": "N14228 differs"}, "N14228 differs"),
    ],
)
def test_each_shortcoming_is_named(change: dict[str, object], said: str) -> None:
    (problem,) = shortcomings(replace(GOOD, **change))  # type: ignore[arg-type]
    assert said in problem


def test_sums_that_were_not_compared_are_no_shortcoming() -> None:
    assert shortcomings(replace(GOOD, sums_equal=None)) == []


def test_the_table_has_every_figure_and_straight_edges() -> None:
    lines = report_lines(GOOD)
    assert len({len(line) for line in lines}) == 1
    text = "\n".join(lines)
    for figure in ("40.00 %", "1.00 %", "3.00 %", "12 made", "1,010 moved", "31", "condense 30"):
        assert figure in text
