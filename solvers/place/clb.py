"""Correlation-based load balancing over m windows: [AUTODASP17], CLB.

Substreams that rise and fall together are kept apart: the imbalance summed over the windows,
sum_t var(L_t), is least when the cross covariance of the instances is greatest. Since
n x sum_t var(L_t) = sum_i |N_i|^2 - const for the instances' load series N_i, a move of substream
x from i to j changes it by 2|x|^2 + 2 x . (N_j - N_i), which a local search evaluates for all
moves at once.

The slides' "min sum_t var(L_t) <=> min sum_i var(N_i)" needs equal means of the N_i; searched
here is the left side, which is what they set out to minimise. How CLB searches is not in the
slides: best relocation, then best swap, until neither helps. See docs/papers.md.
"""

from __future__ import annotations

import numpy as np

from solvers.model.problem import FloatArray, IntArray
from solvers.place.imbalance import as_assignment, as_series, instance_loads

TOLERANCE = 1e-12
MAX_STEPS_PER_SUBSTREAM = 20


def clb(
    series: object,
    current: object,
    instances: int,
    *,
    state: object = None,
    max_state_moved: float | None = None,
) -> IntArray:
    """An assignment for the m windows, from the current one, within a limit on state moved."""
    x = as_series(series)
    home = as_assignment(current, len(x), instances)
    assignment = home.copy()
    sizes: IntArray = (
        np.ones(len(x), dtype=np.int64) if state is None else np.array(state, dtype=np.int64)
    )
    limit = np.inf if max_state_moved is None else float(max_state_moved)
    loads = instance_loads(x, assignment, instances)
    floor = -TOLERANCE * max(1.0, float((loads**2).sum()))
    for _ in range(MAX_STEPS_PER_SUBSTREAM * max(1, len(x))):
        left = limit - float(sizes[assignment != home].sum())
        step = _best_relocation(x, loads, assignment, home, sizes, left, floor)
        if step is None:
            step = _best_swap(x, loads, assignment, home, sizes, left, floor)
        if step is None:
            break
        for k, j in step:
            loads[assignment[k]] -= x[k]
            loads[j] += x[k]
            assignment[k] = j
    return assignment


def _cost(assignment: IntArray, home: IntArray, sizes: IntArray, instances: int) -> FloatArray:
    """[p, n]: state moved more (or, on the way home, less) if k went to j."""
    away = np.arange(instances)[None, :] != home[:, None]
    is_away = (assignment != home)[:, None]
    return np.asarray(sizes[:, None] * (away.astype(np.float64) - is_away))


def _gains(x: FloatArray, loads: FloatArray, assignment: IntArray) -> FloatArray:
    """[p, n]: change of sum |N_i|^2 if k went to j, its own instance counted without it."""
    dots = x @ loads.T
    own = dots[np.arange(len(x)), assignment]
    gains = 2 * ((x**2).sum(axis=1)[:, None] + dots - own[:, None])
    gains[np.arange(len(x)), assignment] = 0.0
    return np.asarray(gains)


def _best_relocation(
    x: FloatArray,
    loads: FloatArray,
    assignment: IntArray,
    home: IntArray,
    sizes: IntArray,
    left: float,
    floor: float,
) -> list[tuple[int, int]] | None:
    gains = _gains(x, loads, assignment)
    gains[_cost(assignment, home, sizes, len(loads)) > left] = 0.0
    k, j = np.unravel_index(int(np.argmin(gains)), gains.shape)
    return [(int(k), int(j))] if gains[k, j] < floor else None


def _best_swap(
    x: FloatArray,
    loads: FloatArray,
    assignment: IntArray,
    home: IntArray,
    sizes: IntArray,
    left: float,
    floor: float,
) -> list[tuple[int, int]] | None:
    """Two substreams of different instances: both moves, less what they do to each other."""
    gains = _gains(x, loads, assignment)
    cost = _cost(assignment, home, sizes, len(loads))
    one_way = gains[:, assignment]
    both = one_way + one_way.T - 4 * (x @ x.T)
    both[assignment[:, None] == assignment[None, :]] = 0.0
    paid = cost[:, assignment]
    both[paid + paid.T > left] = 0.0
    a, b = np.unravel_index(int(np.argmin(both)), both.shape)
    if both[a, b] >= floor:
        return None
    return [(int(a), int(assignment[b])), (int(b), int(assignment[a]))]
