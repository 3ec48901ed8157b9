"""A problem with one resource for each window, so that a method balances every window.

Load distance is the deviation of the worst resource. A load series of m windows makes m resources
of one, so a method that balances all of them balances every window. The capacities are the same.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import FloatArray, Problem


def over_windows(problem: Problem, series: FloatArray) -> Problem:
    """The problem with a resource for each resource and window; ``series`` is [G, R, windows].

    A window without load is left out, because it is always balanced.
    """
    loads = np.asarray(series, dtype=np.float64)
    if loads.ndim != 3 or loads.shape[:2] != (problem.n_key_groups, problem.n_resources):
        raise InvalidInput(
            f"series has the shape {loads.shape}",
            allowed=f"[{problem.n_key_groups}, {problem.n_resources}, windows]",
        )
    pairs = [
        (r, t)
        for r in range(problem.n_resources)
        for t in range(loads.shape[2])
        if loads[:, r, t].sum() > 0
    ]
    if not pairs:
        return problem
    return dataclasses.replace(
        problem,
        resources=tuple(f"{problem.resources[r]}@{t}" for r, t in pairs),
        load=np.column_stack([loads[:, r, t] for r, t in pairs]),
        capacity=np.column_stack([problem.capacity[:, r] for r, _ in pairs]),
        weight=np.array([problem.weights[r] for r, _ in pairs]),
        balanced=np.array([problem.balanced_mask[r] for r, _ in pairs]),
    )
