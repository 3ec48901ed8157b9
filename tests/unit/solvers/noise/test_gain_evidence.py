"""A gain is real beyond the noise; where loads are known to change, sooner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.model import metrics
from solvers.model.noise import LoadNoise
from solvers.model.problem import IntArray, Problem
from solvers.noise.gain_evidence import gain_evidence
from solvers.noise.load_noise import load_noise
from solvers.noise.noise_estimate import (
    EarlierEstimate,
    LoadEstimate,
    ResourceNoise,
    estimate_loads,
)
from tests.unit.solvers.noise.worlds import problem_of

NODES, GROUPS, WINDOWS = 4, 400, 12
PLACEMENT = np.arange(GROUPS) % NODES


def off_by(standard_deviations: float) -> Problem:
    """A node has so many standard errors more load than the mean of all."""
    error = np.full(GROUPS, 0.05)
    load = np.ones(GROUPS)
    of_node = np.sqrt((error[PLACEMENT == 0] ** 2).sum())
    # The mean rises by a quarter of what the node has more.
    surplus = standard_deviations * of_node * NODES / (NODES - 1)
    load[PLACEMENT == 0] += surplus / np.count_nonzero(PLACEMENT == 0)
    return problem_of(load, error, PLACEMENT, NODES)


def with_changing_loads(problem: Problem) -> Problem:
    assert problem.noise is not None
    noise = replace(problem.noise, change_variance=problem.noise.mean_error**2)
    return replace(problem, noise=noise)


@pytest.mark.parametrize(
    ("standard_deviations", "is_real"), [(1.0, False), (3.0, False), (6.0, True)]
)
def test_a_deviation_is_real_beyond_what_noise_reaches_on_any_node_in_ten_rounds(
    standard_deviations: float, is_real: bool
) -> None:
    problem = off_by(standard_deviations)
    evidence = gain_evidence(problem, _levelled(problem), 0.95)
    assert evidence.is_real is is_real
    assert not evidence.loads_change


@pytest.mark.parametrize(
    ("standard_deviations", "is_real"), [(1.0, False), (3.0, True), (6.0, True)]
)
def test_where_loads_change_a_deviation_is_real_beyond_the_chance_of_the_policy(
    standard_deviations: float, is_real: bool
) -> None:
    problem = with_changing_loads(off_by(standard_deviations))
    evidence = gain_evidence(problem, _levelled(problem), 0.95)
    assert evidence.is_real is is_real
    assert evidence.loads_change is (standard_deviations == 3.0)


def _levelled(problem: Problem) -> IntArray:
    """A plan that gives what the heavy node has too much to the other nodes in turn."""
    heavy = problem.load[problem.current == 0, 0]
    surplus = heavy.sum() - problem.load.sum() / NODES
    plan = problem.current.copy()
    moved = np.flatnonzero(problem.current == 0)[: round(surplus / heavy.mean())]
    plan[moved] = 1 + np.arange(len(moved)) % (NODES - 1)
    assert metrics.load_distance(problem, plan) <= metrics.load_distance(problem, problem.current)
    return plan


def estimates(drift: float, seed: int, periods: int = 40) -> list[LoadEstimate]:
    """Estimates of period after period of loads whose levels change by chance."""
    rng = np.random.default_rng(seed)
    level, earlier, found = np.zeros(GROUPS), None, []
    for _ in range(periods):
        level = level + drift * rng.standard_normal(GROUPS)
        windows = np.exp(level)[:, None] * rng.gamma(30.0, 1 / 30.0, (GROUPS, WINDOWS))
        estimate = estimate_loads("cpu", windows, PLACEMENT, NODES, earlier)
        earlier = EarlierEstimate(estimate, PLACEMENT)
        found.append(estimate)
    return found


def noise_of(estimate: LoadEstimate) -> LoadNoise | None:
    groups = estimate.key_groups
    return load_noise(
        ("cpu",), groups.window_sd[:, None], groups.mean_error[:, None], (estimate.resource,)
    )


@pytest.mark.parametrize("seed", range(3))
def test_loads_that_stand_still_are_not_known_to_change(seed: int) -> None:
    for estimate in estimates(0.0, seed):
        noise = noise_of(estimate)
        assert noise is not None
        assert not noise.true_change_variance.any()


@pytest.mark.parametrize("seed", range(3))
def test_loads_that_drift_are_known_to_change_after_some_periods(seed: int) -> None:
    last = estimates(0.05, seed)[-1]
    assert last.resource.change_ratio > 0.2
    noise = noise_of(last)
    assert noise is not None
    assert (noise.true_change_variance > 0).all()


def test_the_change_follows_factors_on_loads_and_chosen_key_groups() -> None:
    problem = with_changing_loads(off_by(1.0))
    assert problem.noise is not None
    doubled = problem.noise.of_scaled_loads(np.full(GROUPS, 2.0))
    assert doubled.true_change_variance == pytest.approx(4 * problem.noise.true_change_variance)
    assert problem.noise.of_key_groups(np.array([1, 2])).true_change_variance.shape == (2, 1)


def test_an_older_row_without_a_change_ratio_counts_as_loads_that_stand_still() -> None:
    assert ResourceNoise("cpu", "steady", "", 12, 0, 1.0, 1.0, 1.0).change_ratio == 0.0
