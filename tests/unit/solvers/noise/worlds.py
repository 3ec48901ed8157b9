"""Windows of key groups with known noise, and problems made from them."""

from __future__ import annotations

import numpy as np

from solvers.model.noise import LoadNoise
from solvers.model.problem import FloatArray, IntArray, Problem

NODES, GROUPS, WINDOWS = 6, 120, 12


def windows_of(
    seed: int, *, groups: int = GROUPS, windows: int = WINDOWS, own: float = 0.2,
    common: float = 0.2,
) -> FloatArray:  # fmt: skip
    """[G, W]: loads with independent noise, and bursts that all have in common."""
    rng = np.random.default_rng(seed)
    mean = rng.lognormal(0.0, 0.7, (groups, 1))
    noise = rng.gamma(1 / own**2, own**2, (groups, windows)) if own else 1.0
    return np.asarray(mean * noise * rng.lognormal(0.0, common, windows))


def placement_of(groups: int = GROUPS, nodes: int = NODES) -> IntArray:
    return np.arange(groups) % nodes


def noisy_problem(
    seed: int, *, relative_error: float, groups: int = GROUPS, nodes: int = NODES,
    windows: int = WINDOWS, spread: float = 0.7,
) -> Problem:  # fmt: skip
    """A problem whose mean loads have this error, and vary as much in the next period."""
    rng = np.random.default_rng(seed)
    load = rng.lognormal(0.0, spread, groups)
    return problem_of(load, relative_error * load, placement_of(groups, nodes), nodes, windows)


def problem_of(
    load: FloatArray, error: FloatArray, current: IntArray, nodes: int, windows: int = WINDOWS
) -> Problem:
    """A problem with these loads, and this standard error of each."""
    return Problem(
        node_ids=tuple(f"n{i}" for i in range(nodes)),
        resources=("cpu",),
        capacity=np.ones((nodes, 1)),
        node_state=("alive",) * nodes,
        key_group_ids=tuple(f"k{k}" for k in range(len(load))),
        operator_ids=("o",) * len(load),
        load=load[:, None],
        state_bytes=np.ones(len(load), dtype=np.int64),
        current=current,
        noise=LoadNoise(
            mean_error=error[:, None],
            period_sd=error[:, None],
            node_variance_ratio=np.ones(1),
            windows=windows,
            common_period_sd=np.full(1, 0.05),
        ),
    )
