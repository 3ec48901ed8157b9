"""Rules of all policies: missing metrics, cool-down, limits, and the sentence."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.scale import (
    LAUNCHING,
    METHODS,
    Boundaries,
    Edge,
    NodeSample,
    Observation,
    OperatorSample,
    Policy,
    ScalingAction,
    ScalingDecision,
    ScalingHistory,
    SourceSample,
    decide,
)
from tests.unit.solvers.scale.world import INTERVAL_S, measured, observe

CALM = 0.1
STEPS = 3


def operators(load: float) -> dict[str, object]:
    """Sources and operators for a load in nodes, so that every policy sees the same."""
    return {
        "sources": (SourceSample("orders", "parse", 1000 * load, 0.0),),
        "operators": (
            OperatorSample("parse", 1000 * load, 0.4 * load),
            OperatorSample("count", 2000 * load, 0.6 * load),
        ),
        "edges": (Edge("parse", "count", 2000 * load),),
    }


def seen(at_s: float, load: float, nodes: int = 10) -> Observation:
    return observe(at_s, *[load] * nodes, **operators(load * nodes))


def history_of_rounds(policy: Policy, load: float, rounds: int, nodes: int = 10) -> ScalingHistory:
    """A history of rounds at this load without an action."""
    history = ScalingHistory()
    for i in range(rounds):
        decision = decide(seen(i * INTERVAL_S, load, nodes), policy, history)
        quiet = dataclasses.replace(decision, action=ScalingAction.HOLD)
        history = history.remember(i * INTERVAL_S, quiet, policy.memory_rounds)
    return history


def after_action(history: ScalingHistory, at_s: float) -> ScalingHistory:
    last = dataclasses.replace(history.rounds[-1], at_s=at_s, action=ScalingAction.OUT)
    return ScalingHistory((*history.rounds[:-1], last))


# Missing metrics


@pytest.mark.parametrize("method", METHODS)
def test_a_silent_node_at_the_lowest_load_stops_scale_in_and_is_named(method: str) -> None:
    policy = Policy(method=method)
    history = history_of_rounds(policy, CALM, 5)
    whole = decide(seen(5 * INTERVAL_S, CALM), policy, history)
    assert whole.action is ScalingAction.IN
    full = seen(5 * INTERVAL_S, CALM)
    for use in (None, {}, {"cpu": ()}, {"cpu": (0.1, float("nan"))}):
        nodes = (*full.nodes[:3], dataclasses.replace(full.nodes[3], use=use), *full.nodes[4:])
        decision = decide(dataclasses.replace(full, nodes=nodes), policy, history)
        assert decision.action is ScalingAction.HOLD
        assert decision.missing == ("node n3",)
        assert decision.reason == "no scaling, because metrics are missing of node n3"


@pytest.mark.parametrize("method", METHODS)
def test_a_node_or_source_that_should_be_there_is_missed_too(method: str) -> None:
    observation = dataclasses.replace(
        seen(0, 0.5), expected_nodes=("n3", "n77"), expected_sources=("orders", "clicks")
    )
    decision = decide(observation, Policy(method=method), ScalingHistory())
    assert decision.missing == ("node n77", "source clicks")


def test_an_overload_with_a_silent_node_does_not_scale_either() -> None:
    full = seen(0, 0.99)
    nodes = (dataclasses.replace(full.nodes[0], use=None), *full.nodes[1:])
    decision = decide(dataclasses.replace(full, nodes=nodes), Policy(), ScalingHistory())
    assert decision.action is ScalingAction.HOLD


def test_nothing_is_learned_from_a_round_without_metrics() -> None:
    history = history_of_rounds(Policy(), CALM, 2)
    full = seen(2 * INTERVAL_S, CALM)
    nodes = (dataclasses.replace(full.nodes[0], use=None), *full.nodes[1:])
    decision = decide(dataclasses.replace(full, nodes=nodes), Policy(), history)
    assert history.remember(2 * INTERVAL_S, decision, 100) == history


@pytest.mark.parametrize("method", METHODS)
def test_metrics_withheld_for_as_long_as_they_are_and_not_longer(method: str) -> None:
    """Rounds at the lowest load: no node is removed while one node is silent."""
    policy = Policy(method=method)
    history, actions = history_of_rounds(policy, CALM, 3), []
    for i in range(3, 9):
        full = seen(i * INTERVAL_S, CALM)
        if i < 8:
            silent = dataclasses.replace(full.nodes[7], use=None)
            full = dataclasses.replace(full, nodes=(*full.nodes[:7], silent, *full.nodes[8:]))
        decision = decide(full, policy, history)
        history = history.remember(full.at_s, decision, policy.memory_rounds)
        actions.append(decision.action)
        assert ("node n7" in decision.reason) == (i < 8)
    assert actions == [ScalingAction.HOLD] * 5 + [ScalingAction.IN]


# Hysteresis, cool-down, stabilisation, benefit


@pytest.mark.parametrize("method", METHODS)
@given(load=st.floats(0.41, 0.84), rounds=st.integers(0, 6))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_nothing_happens_between_the_boundaries(method: str, load: float, rounds: int) -> None:
    policy = Policy(method=method)
    history = history_of_rounds(policy, load, rounds)
    assert decide(seen(rounds * INTERVAL_S, load), policy, history).action is ScalingAction.HOLD


@pytest.mark.parametrize("method", METHODS)
def test_a_cool_down_never_delays_scale_out_above_the_upper_boundary(method: str) -> None:
    policy = Policy(method=method, cool_down_s=10 * INTERVAL_S)
    history = after_action(history_of_rounds(policy, 0.6, 4), 3 * INTERVAL_S)
    decision = decide(seen(4 * INTERVAL_S, 0.95), policy, history)
    assert decision.action is ScalingAction.OUT


@pytest.mark.parametrize("method", METHODS)
def test_a_cool_down_delays_scale_in(method: str) -> None:
    policy = Policy(method=method, cool_down_s=2 * INTERVAL_S)
    history = after_action(history_of_rounds(policy, CALM, 6), 5 * INTERVAL_S)
    early = decide(seen(6 * INTERVAL_S, CALM), policy, history)
    assert early.action is ScalingAction.HOLD
    assert "too recent" in early.reason
    assert early.would_change == "600 s more of cool-down"
    history = history.remember(6 * INTERVAL_S, early, 100)
    assert decide(seen(7 * INTERVAL_S, CALM), policy, history).action is ScalingAction.IN


@pytest.mark.parametrize("method", METHODS)
def test_scale_in_waits_for_its_rounds(method: str) -> None:
    policy = Policy(method=method, stabilisation_rounds=STEPS)
    for rounds in range(5):
        decision = decide(
            seen(rounds * INTERVAL_S, CALM), policy, history_of_rounds(policy, CALM, rounds)
        )
        assert (decision.action is ScalingAction.IN) == (rounds + 1 >= STEPS)


def test_the_largest_need_of_the_last_rounds_decides_how_many_go() -> None:
    policy = Policy(stabilisation_rounds=3, max_step_in=1.0)
    history = ScalingHistory()
    for i, load in enumerate((0.1, 0.35, 0.1)):
        decision = decide(seen(i * INTERVAL_S, load), policy, history)
        history = history.remember(i * INTERVAL_S, decision, 100)
    assert decision.action is ScalingAction.IN
    assert decision.after == {"": 6}  # 3.5 / 0.65, of the middle round


def test_too_small_a_benefit_is_not_worth_a_drain() -> None:
    policy = Policy(min_benefit=0.5, boundaries=Boundaries(0.4, 0.5, 0.85))
    decision = decide(seen(3 * INTERVAL_S, 0.39), policy, history_of_rounds(policy, 0.39, 3))
    assert decision.action is ScalingAction.HOLD
    assert "2 of 10 nodes are below the 50 % it must gain" in decision.reason


def test_a_series_that_covers_too_little_never_lets_a_node_go() -> None:
    policy = Policy()
    history = history_of_rounds(policy, CALM, 5)
    full = seen(5 * INTERVAL_S, CALM)
    short = tuple(
        dataclasses.replace(n, use={"cpu": tuple(n.use["cpu"][:2])})  # type: ignore[index]
        for n in full.nodes
    )
    decision = decide(dataclasses.replace(full, nodes=short), policy, history)
    assert decision.action is ScalingAction.HOLD
    assert "covers only 17 %" in decision.reason


def test_windows_at_the_limit_count_as_above_the_boundary() -> None:
    """Measured use cannot exceed the capacity, so the mean hides what was wanted."""
    series = (0.5,) * 8 + (1.0,) * 4
    nodes = tuple(measured(f"n{i}", series) for i in range(10))
    decision = decide(Observation(0.0, 50.0, nodes), Policy(), ScalingHistory())
    assert decision.action is ScalingAction.OUT
    assert "at its limit in 33 % of the windows" in decision.reason


# Steps, launches, drains


@pytest.mark.parametrize("method", METHODS)
def test_no_step_is_larger_than_the_policy_allows(method: str) -> None:
    policy = Policy(method=method, max_step_out=0.2, max_step_in=0.2)
    out = decide(seen(0, 0.99), policy, ScalingHistory())
    assert out.after == {"": 12}
    less = decide(seen(5 * INTERVAL_S, 0.01), policy, history_of_rounds(policy, 0.01, 5))
    assert less.after == {"": 8}


def with_node(observation: Observation, node: NodeSample) -> Observation:
    return dataclasses.replace(observation, nodes=(*observation.nodes, node))


def test_nodes_on_their_way_are_counted_and_not_missed() -> None:
    coming = [NodeSample(f"c{i}", {"cpu": 1.0}, None, LAUNCHING, "", 0.0) for i in range(4)]
    observation = seen(60.0, 0.9)
    for node in coming:
        observation = with_node(observation, node)
    decision = decide(observation, Policy(launch_s=300), ScalingHistory())
    assert decision.action is ScalingAction.HOLD
    assert decision.before == {"": 14}


def test_a_node_that_never_comes_up_is_no_longer_counted_on() -> None:
    node = NodeSample("c0", {"cpu": 1.0}, None, LAUNCHING, "", 0.0)
    decision = decide(with_node(seen(10_000.0, 0.6), node), Policy(), ScalingHistory())
    assert decision.before == {"": 10}


def test_nothing_more_is_let_go_while_nodes_drain() -> None:
    policy = Policy()
    node = measured("d0", 0.0, state="draining")
    observation = with_node(seen(5 * INTERVAL_S, CALM), node)
    decision = decide(observation, policy, history_of_rounds(policy, CALM, 5))
    assert decision.action is ScalingAction.HOLD
    assert "still draining" in decision.reason


def test_what_draining_nodes_carry_counts_as_load() -> None:
    nodes = (measured("n0", 0.6), measured("d0", 0.6, state="draining"))
    decision = decide(Observation(0.0, 50.0, nodes), Policy(), ScalingHistory())
    assert decision.utilisation == {"": pytest.approx(1.2)}
    assert decision.after == {"": 2}


# Clock, sentence, purity


@pytest.mark.parametrize("method", METHODS)
def test_a_clock_that_goes_back_stops_scaling(method: str) -> None:
    policy = Policy(method=method)
    history = history_of_rounds(policy, CALM, 5)
    decision = decide(seen(100.0, CALM), policy, history)
    assert decision.action is ScalingAction.HOLD
    assert "the clock went back by 2300 s" in decision.reason
    assert history.remember(100.0, decision, 100) == history


@pytest.mark.parametrize("method", METHODS)
@given(load=st.floats(0, 1), rounds=st.integers(0, 5), nodes=st.integers(1, 30))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_every_decision_says_why_and_what_would_have_changed_it(
    method: str, load: float, rounds: int, nodes: int
) -> None:
    policy = Policy(method=method, max_nodes=25)
    history = history_of_rounds(policy, load, rounds, nodes)
    observation = seen(rounds * INTERVAL_S, load, nodes)
    decision = decide(observation, policy, history)
    assert decision.reason
    assert "\n" not in decision.reason
    assert decision.binding
    assert decision.would_change
    assert decision == decide(observation, policy, history)
    assert (decision.action is ScalingAction.OUT) == (decision.change("") > 0)
    assert (decision.action is ScalingAction.IN) == (decision.change("") < 0)
    assert decision.after[""] >= min(nodes, policy.min_nodes)
    assert decision.after[""] <= max(nodes, 25)


def test_the_history_is_bounded_and_a_retried_round_counts_once() -> None:
    policy = Policy(memory_rounds=4)
    history = history_of_rounds(policy, 0.5, 9)
    assert len(history.rounds) == 4
    decision: ScalingDecision = decide(seen(8 * INTERVAL_S, 0.5), policy, history)
    assert len(history.remember(8 * INTERVAL_S, decision, 4).rounds) == 4


# Bad input


def test_a_policy_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no scaling policy 'guess'"):
        decide(seen(0, 0.5), Policy(method="guess"), ScalingHistory())


@pytest.mark.parametrize("capacity", [0.0, -1.0, float("nan"), float("inf")])
def test_a_capacity_that_is_not_above_zero_is_refused(capacity: float) -> None:
    with pytest.raises(InvalidInput, match="capacity of node"):
        measured("n0", 0.5, capacity=capacity)


def test_a_job_without_a_node_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no node"):
        Observation(0.0, 50.0, ())


def test_all_nodes_draining_is_refused_with_a_remedy() -> None:
    observation = Observation(0.0, 50.0, (measured("n0", 0.5, state="draining"),))
    with pytest.raises(InvalidInput, match="take one back from draining"):
        decide(observation, Policy(), ScalingHistory())


@pytest.mark.parametrize("method", METHODS)
def test_a_load_of_exactly_zero_leaves_the_minimum(method: str) -> None:
    policy = Policy(method=method, min_nodes=2, max_step_in=1.0)
    decision = decide(seen(5 * INTERVAL_S, 0.0), policy, history_of_rounds(policy, 0.0, 5))
    assert decision.after == {"": 2}


def test_a_use_below_zero_is_refused() -> None:
    with pytest.raises(InvalidInput, match="value < 0"):
        measured("n0", -0.1)


@pytest.mark.parametrize(
    "broken",
    [
        {"min_nodes": 0},
        {"min_nodes": 5, "max_nodes": 4},
        {"interval_s": 0.0},
        {"cool_down_s": -1.0},
        {"billing_s": 0.0},
        {"min_benefit": 1.5},
        {"max_step_out": 0.0},
        {"new_node_capacity": {"cpu": 0.0}},
        {"memory_rounds": 1, "stabilisation_rounds": 3},
    ],
)
def test_a_policy_that_cannot_be_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Policy(**broken)  # type: ignore[arg-type]
