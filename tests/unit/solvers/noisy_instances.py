"""Problems with noise for the solvers' tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st

from solvers.model.noise import LoadNoise
from solvers.model.problem import Problem
from solvers.noise.load_distance_distribution import next_load_distance
from tests.unit.solvers.instances import make, problems


def with_noise(problem: Problem, relative: Any = 0.05, **rest: Any) -> Problem:
    """The problem with noise of each load as a share of it: one share, or [G, R]."""
    sd = problem.load * np.asarray(relative, dtype=float)
    rest = {"mean_error": sd, "period_sd": sd, "windows": 12, **rest}
    rest.setdefault("node_variance_ratio", np.ones(problem.n_resources))
    return dataclasses.replace(problem, noise=LoadNoise(**rest))


def cluster(nodes: int, groups: int, seed: int = 0, relative: float = 0.05) -> Problem:
    """Lognormal loads, placed at random; a few vary much more than the others."""
    rng = np.random.default_rng(seed)
    problem = make(
        rng.lognormal(0.0, 0.5, groups),
        rng.integers(0, nodes, groups),
        nodes=nodes,
        state_bytes=rng.integers(1, 1000, groups),
    )
    wild = np.where(rng.random((groups, 1)) < 0.05, 4.0, 1.0)
    return with_noise(problem, relative * wild)


def expected(problem: Problem, assignment: Any = None) -> float:
    """The load distance that the next period is expected to measure."""
    places = problem.current if assignment is None else np.array(assignment)
    return next_load_distance(problem, places).median


@st.composite
def noisy_problems(draw: Any, max_nodes: int = 3, max_groups: int = 6) -> Problem:
    """Small problems of every kind with every kind of noise: none, small, large, and mixed."""
    problem = draw(problems(max_nodes, max_groups))
    kinds = st.sampled_from([0.0, 0.02, 0.2, 3.0])
    shape = problem.load.shape
    size = shape[0] * shape[1]
    relative = draw(st.lists(kinds, min_size=size, max_size=size))
    ratio = draw(st.sampled_from([0.5, 1.0, 4.0]))
    return with_noise(
        problem,
        np.array(relative).reshape(shape),
        node_variance_ratio=np.full(problem.n_resources, ratio),
    )
