"""The demonstration passes exactly if it shows what it must show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ballast.contracts.records import Promise
from embedded.report import Findings, Traffic, report_lines, shortcomings

PROMISE = Promise(
    job="flights", plan_id="abc", figure="load_distance_pct", unit="% of mean", expected=3.1,
    low=2.0, high=4.5, lowest=1.0, highest=6.5, reason="",
)  # fmt: skip
GOOD = Findings(
    job="flights", version=1, plan_id="abc", before_pct=40.0, promised=PROMISE,
    measured_pct=3.0, bound_pct=0.5, method="milp", status="feasible", moves=12,
    moved_key_groups=12,
    state_bytes=1000, bytes_moved=1010, pause_ms=4.2, batch_id=31, windows=12,
    stage_seconds={"measure": 5.0, "condense": 30.0}, peak_memory_bytes=3 * 2**30,
    sums_equal=True, sums_text="all equal",
)  # fmt: skip


def test_a_plan_that_kept_its_promise_passes() -> None:
    assert shortcomings(GOOD) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"measured_pct": 20.1, "promised": replace(PROMISE, high=20.0, highest=25.0)}, "half of"),
        ({"measured_pct": 6.6}, "above 6.50 %, the end of the promised 99.9 % interval"),
        ({"sums_equal": False, "sums_text": "N14228 differs"}, "N14228 differs"),
    ],
)
def test_each_shortcoming_is_named(change: dict[str, object], said: str) -> None:
    (problem,) = shortcomings(replace(GOOD, **change))  # type: ignore[arg-type]
    assert said in problem


@pytest.mark.parametrize(
    ("measured_pct", "said"),
    [
        (3.0, "inside the 90 % interval"),
        (6.4, "OUTSIDE, 1.90 above the 90 % interval"),
        (0.5, "OUTSIDE, 1.50 below the 90 % interval"),
    ],
)
def test_the_side_of_the_90_pct_interval_is_printed_and_is_no_shortcoming(
    measured_pct: float, said: str
) -> None:
    findings = replace(GOOD, measured_pct=measured_pct)
    assert shortcomings(findings) == []
    text = "\n".join(report_lines(findings))
    assert said in text
    assert "3.10 % of the mean, 2.00 to 4.50 with 90 % probability" in text


@pytest.mark.parametrize("measured_pct", [4.5 + 1e-7, 4.5 - 1e-7])
def test_rounding_is_not_outside_of_a_point(measured_pct: float) -> None:
    point = replace(PROMISE, expected=4.5, low=4.5, high=4.5, lowest=4.5, highest=4.5)
    near = replace(GOOD, promised=point, measured_pct=measured_pct)
    assert "inside the 90 % interval" in "\n".join(report_lines(near))
    assert shortcomings(near) == []


def test_a_plan_without_an_interval_says_why_and_is_judged_by_the_hash_placement_alone() -> None:
    promise = Promise(
        job="flights", plan_id="abc", figure="load_distance_pct", unit="% of mean", expected=0.0,
        reason="3 of 12 windows have a load",
    )  # fmt: skip
    findings = replace(GOOD, promised=promise, measured_pct=19.0)
    assert shortcomings(findings) == []
    text = "\n".join(report_lines(findings))
    assert "no interval: 3 of 12 windows have a load" in text
    assert "no interval was promised" in text


def test_sums_that_were_not_compared_are_no_shortcoming() -> None:
    assert shortcomings(replace(GOOD, sums_equal=None)) == []


def test_the_table_has_every_figure_and_straight_edges() -> None:
    lines = report_lines(GOOD)
    assert len({len(line) for line in lines}) == 1
    text = "\n".join(lines)
    for figure in ("40.00 %", "3.10 %", "3.00 %", "12 made", "1,010 moved", "31", "condense 30"):
        assert figure in text


TRAFFIC = Traffic(
    max_load_distance_pct=10.0,
    collocation_pct=(17.0, 60.0, 59.5),
    wire_bytes_per_record=(1000.0, 600.0, 630.0),
    load_index_pct=(95.0, 96.0),
)


def test_a_joint_plan_is_judged_by_the_bytes_it_saved() -> None:
    """A load distance above half of that by hash, or anywhere within its bound, is no failure."""
    joint = replace(
        GOOD, measured_pct=25.0, promised=replace(PROMISE, high=30.0, highest=40.0), traffic=TRAFFIC
    )
    assert shortcomings(joint) == []
    missed = replace(TRAFFIC, wire_bytes_per_record=(1000.0, 600.0, 641.0))
    (problem,) = shortcomings(replace(joint, traffic=missed))
    assert "more than 10 % of the promised fall missed" in problem
    (problem,) = shortcomings(replace(joint, traffic=replace(TRAFFIC, routed_keys=0)))
    assert "routes no key" in problem
    assert shortcomings(replace(joint, traffic=replace(TRAFFIC, routed_keys=7))) == []
    further = {"wire_bytes_per_record": (1000.0, 600.0, 500.0)}
    assert shortcomings(replace(joint, traffic=replace(TRAFFIC, **further)))
    assert shortcomings(replace(joint, traffic=replace(TRAFFIC, routed_keys=7, **further))) == []
    short = {"wire_bytes_per_record": (1000.0, 600.0, 641.0)}
    assert shortcomings(replace(joint, traffic=replace(TRAFFIC, routed_keys=7, **short)))
    nothing_promised = replace(TRAFFIC, wire_bytes_per_record=(1000.0, 1000.0, 1000.0))
    assert shortcomings(replace(joint, traffic=nothing_promised))


def test_the_table_of_a_joint_plan_has_its_traffic() -> None:
    text = "\n".join(report_lines(replace(GOOD, traffic=TRAFFIC)))
    for figure in ("59.5 measured", "630.00 measured (7.5 % of the fall missed)", "96.0 measured"):
        assert figure in text
