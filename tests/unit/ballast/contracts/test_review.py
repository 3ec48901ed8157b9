"""A plan is published or waits for a person, by its figures and by a given time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ballast.contracts.errors import PolicyError
from ballast.contracts.records import DraftSummary
from ballast.contracts.review import ReviewPolicy, review_verdict
from tests.support.policies import small_policy
from tests.support.records import draft_summary

# 2026-11-16 is a Monday.
NIGHT = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def plan(**figures: Any) -> DraftSummary:
    given = {
        "objective": "balance", "moves": 5, "bytes": 1000, "route_bytes": 0, "pause_s": 0.5,
        "forced_moves": 0, "forced_bytes": 0, "gap_pct": 1.0, "load_distance_before_pct": 30.0,
        "load_distance_pct": 5.0,
    }  # fmt: skip
    return draft_summary(**given | figures)


def within(**limits: Any) -> ReviewPolicy:
    return ReviewPolicy(mode="automatic_within_limits", limits=limits)


def test_a_plan_within_the_limits_publishes_at_night_and_waits_at_noon() -> None:
    policy = within(moves=10, bytes=10_000, pause_s=1.0, hours=("22:00-06:00",))
    assert review_verdict(plan(), policy, NIGHT).publish
    verdict = review_verdict(plan(), policy, NOON)
    assert not verdict.publish
    assert "mon 12:00" in verdict.reasons[0]


def test_automatic_publishes_and_person_waits_whatever_the_clock_says() -> None:
    for now in (NIGHT, NOON):
        assert review_verdict(plan(), ReviewPolicy(), now).publish
        assert not review_verdict(plan(), ReviewPolicy(mode="person"), now).publish


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"moves": 4}, "5 key groups"),
        ({"bytes": 999}, "1,000 bytes"),
        ({"pause_s": 0.4}, "0.500 s"),
        ({"min_benefit_pct": 26.0}, "25.00 percent"),
        ({"max_gap_pct": 0.5}, "1.00 percent from the best"),
        ({"days": ("sun",)}, "on sun"),
    ],
)
def test_each_limit_holds_a_plan_back_with_the_figure_and_the_limit(
    limits: dict[str, Any], said: str
) -> None:
    verdict = review_verdict(plan(), within(**limits), NIGHT)
    assert len(verdict.reasons) == 1
    assert said in verdict.reasons[0]


def test_a_plan_that_breaks_several_limits_says_all_of_them() -> None:
    assert len(review_verdict(plan(), within(moves=1, bytes=1), NIGHT).reasons) == 2


def test_a_limit_may_be_reached() -> None:
    policy = within(moves=5, bytes=1000, pause_s=0.5, min_benefit_pct=25.0, max_gap_pct=1.0)
    assert review_verdict(plan(), policy, NIGHT).publish


def test_bytes_of_routes_count_and_what_leaves_dead_nodes_does_not() -> None:
    assert not review_verdict(plan(route_bytes=1), within(bytes=1000), NIGHT).publish
    forced = plan(forced_moves=9, forced_bytes=9999, load_distance_pct=40.0)
    assert review_verdict(forced, within(moves=5, bytes=1000, min_benefit_pct=1.0), NIGHT).publish


def test_a_joint_plan_may_gain_by_traffic() -> None:
    joint = plan(
        objective="joint", load_distance_pct=30.0, collocation_factor_before_pct=20.0,
        collocation_factor_pct=60.0,
    )  # fmt: skip
    assert review_verdict(joint, within(min_benefit_pct=40.0), NIGHT).publish
    assert not review_verdict(joint, within(min_benefit_pct=41.0), NIGHT).publish


def test_a_weighed_plan_gains_what_its_weights_say() -> None:
    weighed = plan(
        objective="joint", trade="weighted", traffic_weight=2.0, load_weight=1.0,
        load_distance_pct=50.0, collocation_factor_before_pct=20.0, collocation_factor_pct=60.0,
        traffic_saved_before_pct=20.0, traffic_saved_pct=50.0,
    )  # fmt: skip
    assert review_verdict(weighed, within(min_benefit_pct=40.0), NIGHT).publish
    assert not review_verdict(weighed, within(min_benefit_pct=41.0), NIGHT).publish


def test_a_weighed_plan_without_traffic_gains_by_the_weight_of_its_load() -> None:
    weighed = plan(
        objective="joint", trade="weighted", traffic_weight=2.0, load_weight=0.5,
        traffic_saved_before_pct=None, traffic_saved_pct=None,
    )  # fmt: skip
    assert review_verdict(weighed, within(min_benefit_pct=12.5), NIGHT).publish
    assert not review_verdict(weighed, within(min_benefit_pct=13.0), NIGHT).publish


@pytest.mark.parametrize(
    ("hour", "is_open"), [(21, False), (22, True), (23, True), (0, True), (5, True), (6, False)]
)
def test_hours_may_go_past_midnight_and_end_before_their_end(hour: int, is_open: bool) -> None:
    at = datetime(2026, 11, 16, hour, 0, tzinfo=UTC)
    assert review_verdict(plan(), within(hours=("22:00-06:00",)), at).publish is is_open


def test_the_night_belongs_to_the_day_it_begins_on() -> None:
    policy = within(hours=("22:00-06:00",), days=("sun",))
    assert review_verdict(plan(), policy, NIGHT).publish
    sunday_at_three = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)
    assert not review_verdict(plan(), policy, sunday_at_three).publish


def test_the_clock_hangs_in_the_zone_of_the_policy() -> None:
    policy = within(hours=("00:00-06:00",), time_zone="America/New_York")
    assert not review_verdict(plan(), policy, NIGHT).publish
    assert review_verdict(plan(), policy, datetime(2026, 11, 16, 8, 0, tzinfo=UTC)).publish


@pytest.mark.parametrize(
    ("review", "said"),
    [
        ({"mode": "automatic_within_limits"}, "names none"),
        ({"mode": "person", "limits": {"moves": 3}}, "limits are used by"),
        ({"mode": "automatic_within_limits", "limits": {"hours": ["25:00-26:00"]}}, "22:00-06:00"),
        ({"mode": "automatic_within_limits", "limits": {"hours": ["06:00-06:00"]}}, "22:00-06:00"),
        ({"mode": "automatic_within_limits", "limits": {"days": ["funday"]}}, "days"),
        (
            {"mode": "automatic_within_limits", "limits": {"moves": 1, "time_zone": "Mars/North"}},
            "time_zone",
        ),
        ({"mode": "automatic_within_limits", "limits": {"moves": -1}}, "moves"),
        ({"mode": "sometimes"}, "mode"),
        ({"mode": "person", "timeout_s": 0.5}, "timeout_s"),
        ({"mode": "person", "stale": {"load_moved_pct": -1.0}}, "load_moved_pct"),
    ],
)
def test_a_review_that_makes_no_sense_is_refused_by_name(review: Any, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        small_policy(review=review)


def test_a_policy_with_limits_is_the_same_after_json() -> None:
    from ballast.contracts.policy import policy_from_json

    review = {"mode": "automatic_within_limits", "limits": {"moves": 3, "hours": ["22:00-06:00"]}}
    policy = small_policy(review=review)
    assert policy_from_json(policy.to_json()) == policy
