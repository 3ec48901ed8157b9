"""Imbalance and state moved, as in [AUTODASP17], over one window or several."""

from __future__ import annotations

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import FloatArray, IntArray


def instance_loads(series: FloatArray, assignment: IntArray, instances: int) -> FloatArray:
    """[n, m]: load of each instance in each window, L = A^T Y."""
    loads = np.zeros((instances, series.shape[1]))
    np.add.at(loads, assignment, series)
    return loads


def variance(series: FloatArray, assignment: IntArray, instances: int) -> float:
    """Sum over the windows of var(L_t): [AUTODASP17]'s overall load imbalance."""
    return float(instance_loads(series, assignment, instances).var(axis=0).sum())


def spread(series: FloatArray, assignment: IntArray, instances: int) -> float:
    """Largest max - min over the windows, the usual measure of imbalance."""
    loads = instance_loads(series, assignment, instances)
    return float((loads.max(axis=0) - loads.min(axis=0)).max())


def state_moved(state: IntArray, before: IntArray, after: IntArray) -> int:
    """psi(F1, F2) = x . d: state of the substreams that change their instance."""
    return int(state[before != after].sum())


def as_series(load: object) -> FloatArray:
    """[p, m] of loads >= 0; a flat list is one window."""
    series = np.array(load, dtype=np.float64)
    series = series[:, None] if series.ndim == 1 else series
    if series.ndim != 2 or series.shape[1] == 0:
        raise InvalidInput("a load series needs the shape [substreams, windows]")
    if not bool((np.isfinite(series) & (series >= 0)).all()):
        raise InvalidInput("a load is not a number >= 0")
    return series


def as_assignment(current: object, substreams: int, instances: int) -> IntArray:
    """[p]: an instance of 0 .. n-1 for each substream."""
    assignment = np.array(current, dtype=np.int64).reshape(-1)
    if instances < 1:
        raise InvalidInput("there is no instance", remedy="give at least one")
    if len(assignment) != substreams:
        raise InvalidInput(f"current has {len(assignment)} values", allowed=f"{substreams}")
    if len(assignment) and not 0 <= assignment.min() <= assignment.max() < instances:
        raise InvalidInput("current names an instance that does not exist")
    return assignment
