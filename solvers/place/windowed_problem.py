"""Balance in every window and not only on average, by any rebalance method.

A load series of m windows makes m resources of one: load distance is for the worst resource, so
a method that balances all of them balances every window. Capacities are the same in each.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import FloatArray, Problem


def over_windows(problem: Problem, series: FloatArray) -> Problem:
    """The problem with a resource for each resource and window; ``series`` is [G, R, windows].

    A window without any load is left out: nothing can be unbalanced in it.
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
