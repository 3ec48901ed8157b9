"""Loads that rise and fall together, found in a load series, as windows to be level in.

[AUTODASP17]'s CLB keeps apart what is correlated, because a window that nobody has seen yet will
swing the same way. Correlations of single substreams drown in their own noise; the main
components of all series together do not. Each becomes a window "as now, with this swing up": a
plan that is level now and in those (``over_windows``) stays level while the swings go on.
"""

from __future__ import annotations

import numpy as np

from solvers.model.problem import FloatArray
from solvers.place.imbalance import as_series

SWINGS = 3
SMOOTHED = 4
"""Windows that are averaged before components are looked for, against counting noise."""
FEWEST = 24
"""Windows below which a component is mostly chance."""


def with_load_components(level: FloatArray, series: object, count: int = SWINGS) -> FloatArray:
    """[p, 1 + count]: the level, and the level with each of the main swings up by one deviation."""
    x = as_series(series)
    if x.shape[1] < FEWEST or not level.any():
        return np.asarray(level[:, None])
    return np.column_stack([level, np.maximum(0.0, level[:, None] + main_components(x, count))])


def main_components(x: FloatArray, count: int = SWINGS) -> FloatArray:
    """[p, count]: how far each substream goes with each component, in its own units."""
    share = x / np.maximum(x.sum(axis=0), 1e-300) * float(x[:, -1].sum())
    smooth = np.array([share[:, i : i + SMOOTHED].mean(axis=1) for i in _starts(x.shape[1])]).T
    middle = smooth.mean(axis=1)
    # Counting noise grows with the root of the size, so by that the components are unbiased.
    size = np.sqrt(np.maximum(middle, 1e-12 * max(float(middle.max()), 1e-300)))
    patterns, strength, _ = np.linalg.svd(
        (smooth - middle[:, None]) / size[:, None], full_matrices=False
    )
    deviation = strength[:count] / np.sqrt(smooth.shape[1])
    return np.asarray(patterns[:, :count] * deviation * size[:, None])


def _starts(windows: int) -> range:
    return range(windows - SMOOTHED + 1)
