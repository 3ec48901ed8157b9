"""The verifier finds promises that cannot hold, by its own sums and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from solvers.model.noise import LoadNoise
from solvers.model.problem import Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.noise.promise import PlanPromiseRequest, plan_promises
from solvers.verify.promises import PromisedInterval, check_promises
from tests.unit.solvers.instances import make, names

G, N = 40, 5


def noisy_problem(seed: int, share: float = 0.2, **rest: Any) -> Problem:
    rng = np.random.default_rng(seed)
    load = rng.uniform(1, 5, (G, 1))
    noise = LoadNoise(share * load / 3, share * load / 3, np.array([1.3]), 12)
    return make(load, np.arange(G) % N, noise=noise if share else None, **rest)


def promised(problem: Problem, plan: Any) -> dict[str, PromisedInterval]:
    request = PlanPromiseRequest(problem=problem, assignment=np.array(plan), after=problem)
    return {
        each.figure: PromisedInterval(each.expected, each.low, each.high, each.lowest, each.highest)
        for each in plan_promises(request)
    }


def broken(problem: Problem, plan: Any, promises: dict[str, PromisedInterval]) -> list[str]:
    found = check_promises(problem, names(problem, plan), promises, TrafficCosts())
    return [violation.promise for violation in found]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_true_promises_pass(seed: int, share: float) -> None:
    problem = noisy_problem(seed, share)
    plan = np.random.default_rng(seed).integers(0, N, G)
    for assignment in (plan, problem.current):
        assert broken(problem, assignment, promised(problem, assignment)) == []


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_true_promises_of_few_nodes_pass(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    load, capacity = rng.uniform(1, 5, (G, 2)), rng.uniform(1, 9, (3, 2))
    noise = LoadNoise(load / 10, load / 5, np.array([0.5, 0.9]), 12)
    states = ["alive"] * nodes + ["draining"] * (3 - nodes)
    problem = make(load, np.arange(G) % 3, noise=noise, states=states, capacity=capacity)
    for plan in (problem.current, rng.integers(0, nodes, G)):
        assert broken(problem, plan, promised(problem, plan)) == []


def test_nodes_that_do_not_stay_and_caps_are_left_out() -> None:
    rng = np.random.default_rng(7)
    load = rng.uniform(1, 5, (G, 2))
    noise = LoadNoise(load / 10, load / 10, np.ones(2), 12)
    problem = make(
        load, np.arange(G) % N, noise=noise, states=["alive"] * 3 + ["draining", "alive"],
        balanced=[True, False], weight=[0.7, 1.0], capacity=rng.uniform(1, 3, (N, 2)) * 100,
    )  # fmt: skip
    assert broken(problem, problem.current, promised(problem, problem.current)) == []


def test_an_expected_load_distance_outside_of_the_middle_of_the_noise_is_found() -> None:
    problem = noisy_problem(1)
    promises = promised(problem, problem.current)
    expected = promises["load_distance_pct"].expected
    for factor in (0.5, 1.5):
        moved = PromisedInterval(expected * factor, 0.0, 1e3, 0.0, 1e4)
        changed = promises | {"load_distance_pct": moved}
        assert broken(problem, problem.current, changed) == ["load_distance_pct"]
    # The calibration decides on the width of the interval.
    wider = promises | {"load_distance_pct": PromisedInterval(expected, 0.0, 1e3, 0.0, 1e4)}
    assert broken(problem, problem.current, wider) == []


def test_without_noise_the_expected_load_distance_is_exact() -> None:
    problem = noisy_problem(2, share=0.0)
    promises = promised(problem, problem.current)
    off = PromisedInterval(promises["load_distance_pct"].expected + 1e-3)
    changed = promises | {"load_distance_pct": off}
    assert broken(problem, problem.current, changed) == ["load_distance_pct"]


@pytest.mark.parametrize(
    "promise",
    [
        PromisedInterval(2.0, 3.0, 4.0, 1.0, 5.0),
        PromisedInterval(3.5, 3.0, 4.0, 3.2, 5.0),
        PromisedInterval(3.5, 3.0, 4.0, 1.0, 3.9),
        PromisedInterval(3.5, 3.0, None, 1.0, 5.0),
        PromisedInterval(-1.0),
        PromisedInterval(3.5, -0.5, 4.0, -1.0, 5.0),
        PromisedInterval(float("nan")),
        PromisedInterval(3.5, 3.0, float("inf"), 1.0, float("inf")),
    ],
)
def test_ends_out_of_order_missing_negative_or_not_finite_are_found(
    promise: PromisedInterval,
) -> None:
    problem = noisy_problem(3)
    promises = promised(problem, problem.current) | {"pause_s": promise}
    assert broken(problem, problem.current, promises) == ["pause_s"]


def test_no_load_distance_is_found() -> None:
    problem = noisy_problem(4)
    assert broken(problem, problem.current, {"pause_s": PromisedInterval(1.0)}) == [
        "load_distance_pct"
    ]


def test_moves_and_loads_of_nodes_are_counted_again() -> None:
    problem = noisy_problem(5)
    plan = problem.current.copy()
    plan[:3] = (plan[:3] + 1) % N
    promises = promised(problem, plan) | {"moves": PromisedInterval(3.0, 3.0, 3.0, 3.0, 3.0)}
    assert broken(problem, plan, promises) == []
    assert broken(problem, plan, promises | {"moves": PromisedInterval(4.0)}) == ["moves"]
    node = {"cpu_load_cores/n0": PromisedInterval(1.0)}
    found = check_promises(problem, names(problem, plan), promises | node, TrafficCosts())
    assert [str(each) for each in found] == [
        "cpu_load_cores/n0: 'n0' is no node with a load on CPU"
    ]


def test_the_cost_of_records_between_nodes_is_in_the_expected_value() -> None:
    """A plan for balance alone separates two key groups, and their records then cost CPU."""
    load, current = [[4.0], [4.0], [1.0], [1.0]], [0, 0, 1, 1]
    problem = make(
        load, current, traffic_from=np.array([0]), traffic_to=np.array([1]),
        traffic_rate=np.array([10.0]),
    )  # fmt: skip
    costs = TrafficCosts(send=(0.1,), receive=(0.1,))
    plan = [0, 1, 0, 1]
    level = {"load_distance_pct": PromisedInterval(0.0)}
    assert check_promises(problem, names(problem, plan), level, TrafficCosts()) == []
    assert check_promises(problem, names(problem, plan), level, costs) == []
    lopsided = [0, 1, 1, 1]
    rate = {"load_distance_pct": PromisedInterval(100 * 2 / 12)}
    # 4 + 1 record cost on one node, 4 + 1 + 1 + 1 on the other.
    assert check_promises(problem, names(problem, lopsided), rate, costs) == []
    assert check_promises(problem, names(problem, lopsided), rate, TrafficCosts()) != []
