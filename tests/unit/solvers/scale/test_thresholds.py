"""[DODO, Algorithm 2]: the meaning of its text, and where the printed code differs."""

from __future__ import annotations

import dataclasses

import pytest

from ballast.contracts.errors import InvalidInput
from solvers.scale import Boundaries, Observation, Policy, ScalingAction, ScalingHistory, decide
from tests.unit.solvers.scale.world import INTERVAL_S, measured, observe

K = 0.75
"""[DODO, 7.1.1]: the ratio of the ideal load of a node to the maximum."""
POLICY = Policy(
    boundaries=Boundaries(lower=0.3, target=0.8 * K, upper=0.8),
    stabilisation_rounds=1,
    cool_down_s=0,
    launch_s=0,
    shutdown_s=0,
    min_benefit=0,
    max_step_in=1.0,
    max_step_out=10.0,
)


def printed(
    clusters: list[tuple[int, float]], maximum: float, minimum: float, cap: int, k: float
) -> int:
    """Algorithm 2 as printed: the last cluster's I_L, and it is applied once, after the loop."""
    change = 0
    for count, load in clusters:
        if load > maximum and count < cap:
            change = int(count * (load - maximum) / maximum)
        if load < minimum and count > 2:
            change = int(count * (load - maximum) / (k * maximum))
    return change


def clusters(**loads: list[float]) -> Observation:
    nodes = tuple(
        measured(f"{name}{i}", load, cluster=name)
        for name, each in loads.items()
        for i, load in enumerate(each)
    )
    return Observation(0.0, INTERVAL_S / 12, nodes)


def test_above_the_maximum_nodes_are_added_until_the_load_is_ideal() -> None:
    decision = decide(observe(0, *[0.9] * 10), POLICY, ScalingHistory())
    assert decision.action is ScalingAction.OUT
    assert decision.after == {"": 15}  # 9.0 / (0.75 x 0.8)
    assert decision.reason == "10 nodes become 15, because cpu is at 90 %, above 80 %"
    assert decision.would_change == "cpu at or below 80 %"
    assert decision.binding == "cpu"


def test_the_printed_code_adds_too_few_to_get_below_the_maximum() -> None:
    assert printed([(10, 0.85)], 0.8, 0.3, 99, K) == 0
    assert decide(observe(0, *[0.85] * 10), POLICY, ScalingHistory()).action is ScalingAction.OUT


def test_below_the_minimum_nodes_go_until_the_load_is_ideal() -> None:
    decision = decide(observe(0, *[0.12] * 10), POLICY, ScalingHistory())
    assert decision.action is ScalingAction.IN
    assert decision.after == {"": 2}  # 1.2 / 0.6


def test_the_printed_code_can_remove_more_nodes_than_there_are() -> None:
    assert printed([(10, 0.1)], 0.8, 0.3, 99, K) == -11
    decision = decide(observe(0, *[0.1] * 10), POLICY, ScalingHistory())
    assert decision.after == {"": 2}


def test_every_cluster_gets_its_own_number() -> None:
    """As printed, the idle cluster's nodes would change by the busy one's number."""
    seen = clusters(busy=[0.9] * 10, calm=[0.5] * 4)
    decision = decide(seen, POLICY, ScalingHistory())
    assert decision.after == {"busy": 15, "calm": 4}
    assert printed([(10, 0.9), (4, 0.5)], 0.8, 0.3, 99, K) == 1


def test_the_cap_is_over_all_clusters_together_and_the_fullest_grow_first() -> None:
    """[DODO, 7.2]: the capacity is 15 for both clusters."""
    policy = dataclasses.replace(POLICY, max_nodes=15)
    decision = decide(clusters(a=[1.0] * 5, b=[0.9] * 5), policy, ScalingHistory())
    assert decision.after == {"a": 9, "b": 6}
    assert sum(decision.after.values()) == 15
    assert "the cap is 15" in decision.reason
    assert "8 nodes would be needed" in decision.reason


def test_the_minimum_of_nodes_is_kept() -> None:
    policy = dataclasses.replace(POLICY, min_nodes=4)
    assert decide(observe(0, *[0.01] * 5), policy, ScalingHistory()).after == {"": 4}
    at_minimum = decide(observe(0, *[0.01] * 4), policy, ScalingHistory())
    assert at_minimum.action is ScalingAction.HOLD
    assert "4 nodes are the minimum" in at_minimum.reason
    assert decide(observe(0, *[0.5] * 2), policy, ScalingHistory()).after == {"": 4}


def test_nodes_whose_hour_is_paid_stay() -> None:
    """7.1.1: one minute and 59 minutes cost the same, so a node goes at the end of its hour."""
    policy = dataclasses.replace(POLICY, billing_s=3600.0, interval_s=600.0, shutdown_s=60.0)
    nodes = tuple(
        measured(f"n{i}", 0.05, started_at_s=started)
        for i, started in enumerate([6600.0, 3600.0, 3300.0, 4700.0])
    )
    decision = decide(Observation(6800.0, 50.0, nodes), policy, ScalingHistory())
    assert decision.action is ScalingAction.IN
    assert decision.removable == ("n1", "n2")
    assert decision.after == {"": 2}
    fresh = tuple(measured(f"n{i}", 0.05, started_at_s=6700.0) for i in range(4))
    paid = decide(Observation(6800.0, 50.0, fresh), policy, ScalingHistory())
    assert paid.action is ScalingAction.HOLD
    assert "paid for" in paid.reason


def test_a_load_of_exactly_zero_leaves_the_minimum() -> None:
    assert decide(observe(0, 0.0, 0.0, 0.0), POLICY, ScalingHistory()).after == {"": 1}


def test_thresholds_that_cross_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cross"):
        Boundaries(lower=0.9, target=0.95, upper=0.8)
    with pytest.raises(InvalidInput, match="not between"):
        Boundaries(lower=0.3, target=0.96, upper=0.8)
