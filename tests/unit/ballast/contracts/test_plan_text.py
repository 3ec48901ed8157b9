"""Texts on a plan's figures claim only what is proven."""

from __future__ import annotations

import json
from dataclasses import replace

from ballast.contracts import plan_text
from tests.support.records import draft_summary


def test_a_gap_of_nothing_is_a_proof() -> None:
    assert plan_text.quality_text(4.2, 0.0).startswith("proven optimal")


def test_a_gap_says_how_far_the_best_possible_can_be() -> None:
    said = plan_text.quality_text(1.5, 0.5)
    assert said.startswith("at most 0.50 points from the best possible")
    assert "no plan within the budget is below 1.50 %" in said


def test_a_small_gap_is_not_rounded_away() -> None:
    assert "at most 0.0003 points" in plan_text.quality_text(0.0, 0.0003)


PLAN = draft_summary(
    method="search", status="feasible", reason="search: load distance 3 % with 4 moves",
    objective="balance", load_distance_before_pct=40.0, load_distance_pct=3.0, forced_moves=0,
)  # fmt: skip


def test_a_joint_plan_has_a_bound_of_its_traffic_beside_that_of_its_load() -> None:
    bounds = replace(PLAN, bound_pct=1.5, gap_pct=1.5)
    load = plan_text.quality_text(1.5, 1.5)
    assert plan_text.plan_quality_text(bounds) == load
    said = plan_text.plan_quality_text(replace(bounds, collocation_bound_pct=61.25))
    assert said.startswith(f"{load}; no plan within the budget has more than 61.2 % of the traffic")


def test_the_reason_of_a_plan_names_what_was_wrong() -> None:
    assert plan_text.plan_reason(PLAN) == (
        "The load of the node farthest from the mean is off by 40.00 % of it, and by 3.00 % with "
        "the plan."
    )
    lost = replace(PLAN, forced_moves=7, due_moves=2, load_distance_pct=50.0)
    assert plan_text.plan_reason(lost) == (
        "7 key groups have to leave dead nodes; 2 have to leave draining nodes in this round."
    )
    traffic = {"collocation_factor_before_pct": 20.0, "collocation_factor_pct": 80.0}
    assert "20.0 % of the traffic stays" in plan_text.plan_reason(
        replace(PLAN, **traffic, objective="joint")
    )
    assert "traffic" not in plan_text.plan_reason(replace(PLAN, **traffic))


def test_a_plan_that_moves_nothing_says_what_else_it_is_for() -> None:
    still = replace(PLAN, load_distance_pct=40.0, reason="the load distance is good enough")
    assert plan_text.plan_reason(still) == "The load distance is good enough."
    weighed = replace(still, weights_reason="region tag: a from 1 to 2")
    assert (
        plan_text.plan_reason(weighed)
        == "Region tag: a from 1 to 2; the load distance is good enough."
    )
    assert plan_text.plan_reason(replace(still, scaling_reason="adds n3")).startswith("Adds n3; ")


def test_a_rollback_and_a_plan_that_changes_nothing_have_their_own_reason() -> None:
    for own in ({"method": "rollback"}, {"status": "unchanged"}):
        assert plan_text.plan_reason(replace(PLAN, **own, reason="it is so.")) == "It is so."
    assert plan_text.plan_reason(replace(PLAN, status="unchanged", reason="")) == ""


def test_progress_names_the_steps_that_helped() -> None:
    trace = [[0.0, "start", 40.0], [0.5, "search", 2.0], [0.7, "milp", 9.0], [0.9, "milp", 1.0]]
    assert plan_text.progress_text(json.dumps(trace)) == (
        "40.00 % after 0.00 s (start), 2.00 % after 0.50 s (search), 1.00 % after 0.90 s (milp)"
    )
    assert plan_text.progress_text("[]") == ""


def test_small_steps_of_a_progress_have_different_texts() -> None:
    said = plan_text.progress_text('[[0.1, "search", 0.0042], [0.2, "search", 0.00067]]')
    assert said == "0.0042 % after 0.10 s (search), 0.00067 % after 0.20 s (search)"


def test_a_long_progress_keeps_its_start_and_its_end() -> None:
    said = plan_text.progress_text(json.dumps([[s, "search", 100.0 - s] for s in range(50)]))
    assert said.startswith("100.00 % after 0.00 s")
    assert said.endswith("51.00 % after 49.00 s (search)")
    assert said.count(" % ") == 5


def held(**changes: object) -> dict[str, object]:
    given = {"kind": "cluster", "what": ["a/0", "b/1"], "count": 2, "saved_rate": 3.0, "bytes": 9,
             "reason": "saves 1, costs 2"}  # fmt: skip
    return {**given, **changes}


def test_what_was_held_back_is_summed_by_kind_and_named_one_by_one() -> None:
    rows = [
        held(reason="why"),
        held(what=["a/2"], count=7, saved_rate=1.5),
        held(kind="key", what=["'k' of a"], count=1),
        held(kind="key", what=[], count=1200, reason="and 1200 more"),
    ]
    found = plan_text.held_back_entries(json.dumps(rows))
    assert plan_text.held_back_summary(found) == [
        "9 key groups of clusters that would save 4.5 records a second, such as a/0, b/1: why",
        "1,201 keys that would save 6 records a second, such as 'k' of a: saves 1, costs 2",
    ]
    assert plan_text.held_back_lines(found) == [
        "cluster a/0, b/1: why",
        "cluster a/2 and 6 more: saves 1, costs 2",
        "key 'k' of a: saves 1, costs 2",
        "1,200 keys of lesser gain, 3 records a second together",
    ]
    assert plan_text.held_back_summary([]) == plan_text.held_back_lines([]) == []


def test_rows_of_an_earlier_version_held_clusters_back() -> None:
    old = {"what": ["a/0", "b/1"], "saved_rate": 3.0, "bytes": 9, "reason": "does not pay"}
    found = plan_text.held_back_entries(json.dumps([old]))
    assert plan_text.held_back_summary(found)[0].startswith("2 key groups of clusters")
    assert plan_text.held_back_lines(found) == ["cluster a/0, b/1: does not pay"]
