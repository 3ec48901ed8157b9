"""Estimate of the load of the next window from counts, which are noisy.

A count of x records varies by the root of x by chance, and a plan for such noise moves state for
nothing. The level is modelled as a random walk observed with counting noise, so the filter is a
Kalman filter in its steady state: its gain is near 1 for large substreams and smaller for small
ones. The change of levels is estimated from all substreams together. Trends make changes larger
than they look from window to window, so a few multiples of the estimate are tried, and the one with
the best prediction is used.
"""

from __future__ import annotations

import numpy as np

from solvers.model.problem import FloatArray
from solvers.place.imbalance import as_series

MULTIPLES = (1.0, 3.0, 10.0, np.inf)
"""Multiples of the estimated change; with the last one the level is the last window."""
FEWEST = 3
"""With fewer windows the level is the last window."""


def estimate_level(counts: object) -> FloatArray:
    """[p]: the level of each substream after the last of the windows; ``counts`` is [p, m]."""
    x = as_series(counts)
    if x.shape[1] < FEWEST:
        return np.asarray(x[:, -1])
    change = relative_change(x)
    paths = [_filtered(x, multiple * change) for multiple in MULTIPLES]
    missed = [float(((path[:, :-1] - x[:, 1:]) ** 2).sum()) for path in paths]
    return np.asarray(paths[int(np.argmin(missed))][:, -1])


def relative_change(x: FloatArray) -> float:
    """Variance of the relative change of a level in a window, without counting noise."""
    middle = (x[:, 1:] + x[:, :-1]) / 2
    unexplained = float((np.diff(x, axis=1) ** 2 - 2 * middle).sum())
    return max(0.0, unexplained / max(float((middle**2).sum()), 1e-300))


def _filtered(x: FloatArray, change: float) -> FloatArray:
    """[p, m]: the level after each window, with the steady gain for this change."""
    level = x[:, 0]
    path = [level]
    for seen in x.T[1:]:
        level = level + _gain(level, change) * (seen - level)
        path.append(level)
    return np.asarray(path).T


def _gain(level: FloatArray, change: float) -> FloatArray:
    """Gain for a random walk of variance change x level^2 with Poisson noise of variance level."""
    noise = np.maximum(level, 1.0)
    if not np.isfinite(change):
        return np.ones_like(noise)
    drift = change * noise**2
    spread = (drift + np.sqrt(drift**2 + 4 * drift * noise)) / 2
    return np.asarray(spread / (spread + noise))
