"""The closed form of the load distance's distribution agrees with simulation."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.model import metrics
from solvers.model.noise import LoadNoise
from solvers.noise.load_distance import LoadDistanceDistribution, next_load_distance
from tests.unit.solvers.noise.worlds import noisy_problem


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
