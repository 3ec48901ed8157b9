"""No policy flaps: a load swing near the scheduling interval, 200 rounds, random phase and
period."""

from __future__ import annotations

import math

import numpy as np
import pytest

from solvers.scale import METHODS, Policy, ScalingAction
from tests.unit.solvers.scale.world import INTERVAL_S, World, swing

ROUNDS = 200
CASES = [(m, seed) for m in METHODS for seed in range(3 if m == "forecast" else 8)]
"""The forecast back-tests itself in every round, which takes ten times as long."""


def start_nodes(policy: Policy, base: float) -> int:
    """The number of nodes of the policy for the level without a swing."""
    target = policy.boundaries.target
    if policy.method == "from_load":
        target = (policy.boundaries.lower + policy.boundaries.upper) / 2
    return math.ceil(base / target)


def world(method: str, seed: int, **rest: float) -> World:
    rng = np.random.default_rng(1000 + seed)
    policy = Policy(method=method, interval_s=INTERVAL_S)
    base = float(rng.uniform(6, 40))
    load = swing(
        base,
        period_s=INTERVAL_S * rng.uniform(0.8, 1.25),
        phase=rng.uniform(0, 2 * np.pi),
        step_at_s=rest.pop("step_at_s", np.inf),
    )
    return World(load, policy, start_nodes(policy, base), seed=seed, **rest)


@pytest.mark.parametrize(("method", "seed"), CASES)
def test_a_swing_of_30_percent_causes_at_most_two_actions(method: str, seed: int) -> None:
    assert len(world(method, seed).run(ROUNDS)) <= 2


@pytest.mark.parametrize(("method", "seed"), CASES)
def test_a_lasting_step_in_the_swing_is_answered_within_two_rounds(method: str, seed: int) -> None:
    rng = np.random.default_rng(2000 + seed)
    step_at_s = float(rng.uniform(50, 150)) * INTERVAL_S
    w = world(method, seed, step_at_s=step_at_s)
    actions = w.run(ROUNDS)
    before = [i for i in actions if i * INTERVAL_S < step_at_s]
    after = [i for i in actions if i * INTERVAL_S >= step_at_s]
    first_round_after = math.ceil(step_at_s / INTERVAL_S)
    assert len(before) <= 2
    assert after, "the step was never answered"
    assert after[0] <= first_round_after + 1
    assert w.decisions[after[0] - 1].action is ScalingAction.OUT
    assert len(after) <= 2


@pytest.mark.parametrize(("method", "seed"), CASES)
def test_a_swing_that_is_only_sampled_causes_at_most_two_actions(method: str, seed: int) -> None:
    """A tenth of the interval is observed: each round sees another phase (aliasing)."""
    assert len(world(method, seed, covers=0.1).run(ROUNDS)) <= 2


@pytest.mark.parametrize("method", METHODS)
def test_a_load_that_falls_for_good_lets_nodes_go(method: str) -> None:
    """A lasting fall is followed: the load halves, and so does the number of nodes."""
    policy = Policy(method=method, interval_s=INTERVAL_S)
    w = World(lambda t: 13.0 if t < 20 * INTERVAL_S else 6.0, policy, 20)
    w.run(60)
    assert w.nodes <= 11
    assert w.nodes >= 7


@pytest.mark.parametrize("method", METHODS)
def test_a_load_that_doubles_is_met_and_the_backlog_worked_off(method: str) -> None:
    policy = Policy(method=method, interval_s=INTERVAL_S)
    w = World(lambda t: 13.0 if t < 20 * INTERVAL_S else 26.0, policy, 20)
    w.run(40)
    assert w.backlog == pytest.approx(0, abs=1e-9)
    assert w.nodes >= 31


def test_it_is_the_rule_on_coverage_that_keeps_a_sampled_swing_from_flapping() -> None:
    """A step in a sampled swing: without the rule, the decision follows the alias for ever."""
    actions = {}
    for min_coverage in (0.0, 0.5):
        policy = Policy(interval_s=INTERVAL_S, min_coverage=min_coverage)
        rng = np.random.default_rng(900)
        base = float(rng.uniform(6, 40))
        load = swing(
            base,
            period_s=INTERVAL_S * rng.uniform(0.97, 1.03),
            phase=rng.uniform(0, 6),
            step_at_s=50 * INTERVAL_S,
        )
        w = World(load, policy, start_nodes(policy, base), covers=0.1)
        actions[min_coverage] = len(w.run(ROUNDS))
    assert actions[0.5] <= 2
    assert actions[0.0] > 2
