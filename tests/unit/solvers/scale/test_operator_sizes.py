"""Sizes of operators: demand with backlog and topology, boundaries, and what a restart costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from solvers.scale import Edge, NodeSample, Observation, OperatorSample, SourceSample
from solvers.scale.operator_sizes import SizesHistory, decide_sizes, drain_s
from solvers.scale.policy import Boundaries, Policy
from solvers.scale.true_rate import Demand

AT = 10_000.0


def observation(
    arriving: float | None = 100.0,
    backlog: float | None = 0.0,
    busy: Mapping[str, float | None] | None = None,
    most: int = 20,
) -> Observation:
    """Records of a source go to ``count``, and as many go on to ``join``."""
    used = {"read": 0.1, "count": 1.2, "join": 0.6, **(busy or {})}
    return Observation(
        at_s=AT,
        window_s=60.0,
        nodes=(NodeSample("cluster", {"cpu": 8.0}, {"cpu": (1.0,)}),),
        sources=(SourceSample("read", "read", arriving, backlog),),
        operators=tuple(OperatorSample(name, 100.0, b, most) for name, b in used.items()),
        edges=(Edge("read", "count", 100.0), Edge("count", "join", 100.0)),
        expected_sources=("read",),
    )


def policy(**changes: Any) -> Policy:
    return Policy(
        **{
            "method": "true_rate", "boundaries": Boundaries(0.4, 0.6, 0.8), "catch_up_s": 100.0,
            "restart_s": 1.0, "cool_down_s": 300.0, "stabilisation_rounds": 1, **changes,
        }
    )  # fmt: skip


SIZES = {"read": 1, "count": 2, "join": 1}


def sizes(
    seen: Observation, before: Mapping[str, int] = SIZES,
    history: SizesHistory | None = None, **changes: Any,
) -> dict[str, int]:  # fmt: skip
    return decide_sizes(seen, before, policy(**changes), history or SizesHistory()).sizes


def test_sizes_within_their_boundaries_stay() -> None:
    found = decide_sizes(observation(), SIZES, policy(), SizesHistory())
    assert found.sizes == SIZES
    assert not found.is_change


def test_an_operator_above_its_boundary_gets_what_brings_it_to_the_target() -> None:
    # 1.8 busy seconds a second, and 1 % of it for the restart: 3.018 at a target of 0.6.
    assert sizes(observation(busy={"count": 1.8})) == {**SIZES, "count": 4}
    assert sizes(observation(busy={"count": 1.7})) == {**SIZES, "count": 3}


def test_more_arrivals_reach_every_operator_through_the_topology() -> None:
    assert sizes(observation(arriving=200.0), max_step_out=9.0) == {
        "read": 1, "count": 5, "join": 3,
    }  # fmt: skip


def test_a_backlog_asks_for_more_where_it_drains_earlier() -> None:
    seen = observation(backlog=5000.0)
    found = decide_sizes(seen, SIZES, policy(), SizesHistory())
    assert found.sizes["count"] > SIZES["count"]
    assert "operator count goes from 2 to" in found.reason


def test_a_backlog_alone_is_no_reason_for_a_restart_that_lasts_longer() -> None:
    # 30 records wait: less than a second of work is left.
    seen = observation(backlog=3000.0, busy={"count": 1.5})
    quick = decide_sizes(seen, SIZES, policy(restart_s=1.0), SizesHistory())
    slow = decide_sizes(seen, SIZES, policy(restart_s=5000.0), SizesHistory())
    assert quick.is_change
    assert not slow.is_change
    assert "the backlog is gone in" in slow.reason


def test_an_arrival_rate_that_is_too_high_is_worth_any_restart() -> None:
    assert sizes(observation(busy={"count": 1.9}), restart_s=5000.0)["count"] > 2


def test_one_step_and_the_most_instances_limit_growth() -> None:
    seen = observation(busy={"count": 9.0})
    assert sizes(seen)["count"] == 4
    assert sizes(seen, max_step_out=0.1)["count"] == 3
    limited = decide_sizes(
        observation(busy={"count": 9.0}, most=2), SIZES, policy(), SizesHistory()
    )
    assert limited.sizes == SIZES
    assert "2 is the most" in limited.reason


def test_an_operator_with_little_work_gives_instances_up() -> None:
    assert sizes(observation(busy={"count": 0.5})) == {**SIZES, "count": 1}


@pytest.mark.parametrize(
    ("changes", "history", "backlog", "why"),
    [
        ({}, SizesHistory(changed_at_s=AT - 10), 0.0, "too recent"),
        ({"stabilisation_rounds": 3}, SizesHistory(({"count": 1},)), 0.0, "fewer than 3 rounds"),
        ({"stabilisation_rounds": 2}, SizesHistory(({"count": 2},)), 0.0, "needs 2 of 2"),
        ({"min_benefit": 0.9}, SizesHistory(), 0.0, "needs 1 of 2"),
        ({"backlog_threshold_s": 0.1}, SizesHistory(), 20.0, "a backlog is being worked off"),
        ({"restart_s": 1000.0, "catch_up_s": 1e6}, SizesHistory(), 0.0, "the restart costs"),
    ],
)
def test_an_operator_keeps_its_instances_while_something_speaks_for_it(
    changes: dict[str, Any], history: SizesHistory, backlog: float, why: str
) -> None:
    seen = observation(busy={"count": 0.5}, backlog=backlog)
    found = decide_sizes(seen, SIZES, policy(**changes), history)
    assert found.sizes == SIZES
    assert any(why in each.why for each in found.operators), found


def test_needs_of_enough_rounds_let_it_shrink_to_the_largest_of_them() -> None:
    history = SizesHistory(({"count": 9}, {"count": 3}, {"count": 2}))
    seen, before = observation(busy={"count": 0.5}), {**SIZES, "count": 6}
    assert sizes(seen, before, history, stabilisation_rounds=3)["count"] == 3
    assert sizes(seen, before, stabilisation_rounds=1, max_step_in=0.2)["count"] == 5


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        (observation(busy={"count": None}), "operator count"),
        (observation(busy={"count": 0.0}), "busy time of operator count"),
        (observation(arriving=None), "source read"),
        (observation(backlog=None), "source read"),
    ],
)
def test_missing_metrics_change_nothing_and_are_named(seen: Observation, name: str) -> None:
    found = decide_sizes(seen, SIZES, policy(), SizesHistory())
    assert found.sizes == SIZES
    assert name in found.reason


def test_a_backlog_drains_in_what_is_left_beside_arrivals() -> None:
    demand = Demand("count", 100.0, 50.0, 0.01, None)
    # 50 records/s over 100 s are 50 busy seconds; 2 instances have 1 busy second a second left.
    assert drain_s([demand], {"count": 2}, policy(), restart_s=0.0) == pytest.approx(50.0)
    assert drain_s([demand], {"count": 2}, policy(), restart_s=3.0) == pytest.approx(56.0)
    assert drain_s([demand], {"count": 1}, policy(), restart_s=0.0) == math.inf


def test_a_source_that_stands_still_shows_how_full_it_would_be() -> None:
    seen = observation(arriving=0.0, backlog=50_000.0)
    found = decide_sizes(seen, SIZES, policy(), SizesHistory())
    assert found.sizes["count"] > SIZES["count"]
