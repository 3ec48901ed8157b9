"""Main components of a load series, as extra windows in which the load is to be level.

CLB of [AUTODASP17] separates correlated substreams, because future windows will vary in the same
way. Correlations of single substreams are lost in noise; the main components of all series are not.
Each component becomes a window "as now, with this component one deviation up". A plan that is level
now and in these windows (``over_windows``) stays level while the load varies.
"""

from __future__ import annotations

import numpy as np

from solvers.model.problem import FloatArray
from solvers.place.imbalance import as_series

COMPONENTS = 3
SMOOTHED = 4
"""Windows that are averaged first, to reduce counting noise."""
FEWEST = 24
"""With fewer windows a component is mostly chance."""


def with_load_components(level: FloatArray, series: object, count: int = COMPONENTS) -> FloatArray:
    """[p, 1 + count]: the level, and the level with each main component one deviation up."""
    x = as_series(series)
    if x.shape[1] < FEWEST or not level.any():
        return np.asarray(level[:, None])
    return np.column_stack([level, np.maximum(0.0, level[:, None] + main_components(x, count))])


def main_components(x: FloatArray, count: int = COMPONENTS) -> FloatArray:
    """[p, count]: change of each substream by one deviation of each component."""
    share = x / np.maximum(x.sum(axis=0), 1e-300) * float(x[:, -1].sum())
    smooth = np.array([share[:, i : i + SMOOTHED].mean(axis=1) for i in _starts(x.shape[1])]).T
    middle = smooth.mean(axis=1)
    # Counting noise grows with the root of the size; dividing by it makes all noise equal.
    size = np.sqrt(np.maximum(middle, 1e-12 * max(float(middle.max()), 1e-300)))
    patterns, strength, _ = np.linalg.svd(
        (smooth - middle[:, None]) / size[:, None], full_matrices=False
    )
    deviation = strength[:count] / np.sqrt(smooth.shape[1])
    return np.asarray(patterns[:, :count] * deviation * size[:, None])


def _starts(windows: int) -> range:
    return range(windows - SMOOTHED + 1)
