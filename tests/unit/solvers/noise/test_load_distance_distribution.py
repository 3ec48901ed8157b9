"""The closed form of the load distance's distribution agrees with simulation."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.model import metrics
from solvers.model.noise import LoadNoise
from solvers.noise.load_distance_distribution import (
    LoadDistanceDistribution,
    next_load_distance,
    next_load_distance_points,
    node_variance,
)
from tests.unit.solvers.instances import make
from tests.unit.solvers.noise.worlds import noisy_problem
from tests.unit.solvers.noisy_instances import with_noise


@pytest.mark.parametrize("seed", range(3))
def test_quantiles_are_those_of_draws(seed: int) -> None:
    rng = np.random.default_rng(seed)
    deviation, sd = rng.normal(0, 2, 7), rng.uniform(0.5, 3, 7)
    found = LoadDistanceDistribution(deviation, sd)
    drawn = np.abs(deviation + sd * rng.standard_normal((200_000, 7))).max(axis=1)
    for probability in (0.05, 0.5, 0.95):
        wanted = np.quantile(drawn, probability)
        assert found.quantile(probability) == pytest.approx(wanted, rel=0.02)
        assert found.probability(wanted) == pytest.approx(probability, abs=0.01)


def test_without_noise_every_quantile_is_the_load_distance() -> None:
    found = LoadDistanceDistribution(np.array([-3.0, 1.0]), np.zeros(2))
    assert found.quantile(0.001) == pytest.approx(3.0)
    assert found.median == pytest.approx(3.0)
    assert found.probability(2.9) == 0.0


def test_without_nodes_the_load_distance_is_zero() -> None:
    found = LoadDistanceDistribution(np.zeros(0), np.zeros(0))
    assert found.median == 0.0


def test_no_load_distance_is_below_zero() -> None:
    assert LoadDistanceDistribution(np.zeros(2), np.ones(2)).probability(-0.1) == 0.0


def test_a_problem_without_noise_promises_its_load_distance() -> None:
    problem = noisy_problem(0, relative_error=0.0)
    found = next_load_distance(problem, problem.current)
    assert found.median == pytest.approx(metrics.load_distance(problem, problem.current))


def test_the_noise_of_a_node_is_that_of_its_key_groups() -> None:
    problem = noisy_problem(1, relative_error=0.1)
    assert isinstance(problem.noise, LoadNoise)
    found = next_load_distance(problem, problem.current)
    variance = np.bincount(problem.current, problem.noise.variance[:, 0])
    mean = problem.load.sum() / problem.n_nodes
    assert found.sd == pytest.approx(100 * np.sqrt(variance) / mean)


def test_a_single_node_is_always_measured_at_the_mean() -> None:
    problem = with_noise(make([1.0, 2.0, 3.0], [0, 0, 0]), 0.3)
    for found in (
        next_load_distance(problem, problem.current),
        next_load_distance_points(problem, problem.current),
    ):
        assert found.quantile(0.0001) == found.quantile(0.9999) == pytest.approx(0.0)


@pytest.mark.parametrize("capacity", [[1.0, 1.0], [1.0, 3.0]])
def test_what_one_of_two_nodes_has_more_the_other_has_less(capacity: list[float]) -> None:
    rng = np.random.default_rng(4)
    mean, sd = np.array([1.0, 2.0, 1.5, 0.5, 1.0, 3.0]), np.array([0.3, 0.1, 0.2, 0.0, 0.1, 0.1])
    node = np.array([0, 0, 0, 1, 1, 1])
    problem = make(mean, node, capacity=capacity)
    # Half of the variance stays: shares of two nodes sum to one.
    ratio = np.array([0.5])
    problem = with_noise(problem, (sd / mean)[:, None] / np.sqrt(2), node_variance_ratio=ratio)
    drawn = mean + sd * rng.standard_normal((100_000, 6))
    share = drawn[:, :3].sum(axis=1) / drawn.sum(axis=1)
    fair = capacity[0] / sum(capacity)
    measured = 100 * np.maximum(abs(share / fair - 1), abs((1 - share) / (1 - fair) - 1))
    found = next_load_distance(problem, node)
    for probability in (0.05, 0.5, 0.95):
        wanted = np.quantile(measured, probability)
        assert found.quantile(probability) == pytest.approx(wanted, rel=0.1, abs=0.2)


def test_two_nodes_beside_one_that_still_holds_load_vary_by_themselves() -> None:
    problem = with_noise(
        make([1.0, 2.0, 0.5], [0, 1, 2], states=["alive", "alive", "draining"]), 0.3
    )
    own = node_variance(problem, problem.current)[:2, 0]
    assert own[1] == pytest.approx(4 * own[0])
    emptied = node_variance(problem, np.array([0, 1, 1]))[:2, 0]
    assert emptied[0] == emptied[1]
