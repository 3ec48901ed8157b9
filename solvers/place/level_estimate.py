"""The load behind a window's count, which is partly chance: what the next window will ask for.

A count of x records is off by root x by chance alone, and a plan made for that moves state for
nothing. The level is a random walk seen through counting noise, so the filter is Kalman's in its
steady state: a gain for each substream, near 1 for large ones and less for small ones. How much
levels change is estimated from all of them together; of a few multiples of it (trends make changes
larger than they look from window to window) the one that would have predicted best is taken.
"""

from __future__ import annotations

import numpy as np

from solvers.model.problem import FloatArray
from solvers.place.imbalance import as_series

MULTIPLES = (1.0, 3.0, 10.0, np.inf)
"""Of the estimated change; the last one is the last window as it is."""
FEWEST = 3
"""Windows below which nothing can be learned: the last one is the level then."""


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
    """Variance of a level's relative change in a window: what counting noise does not explain."""
    middle = (x[:, 1:] + x[:, :-1]) / 2
    unexplained = float((np.diff(x, axis=1) ** 2 - 2 * middle).sum())
    return max(0.0, unexplained / max(float((middle**2).sum()), 1e-300))


def _filtered(x: FloatArray, change: float) -> FloatArray:
    """[p, m]: the level after each window, by the steady gain for this much change."""
    level = x[:, 0]
    path = [level]
    for seen in x.T[1:]:
        level = level + _gain(level, change) * (seen - level)
        path.append(level)
    return np.asarray(path).T


def _gain(level: FloatArray, change: float) -> FloatArray:
    """Of a random walk, variance change x level^2, seen through Poisson noise, variance level."""
    noise = np.maximum(level, 1.0)
    if not np.isfinite(change):
        return np.ones_like(noise)
    drift = change * noise**2
    spread = (drift + np.sqrt(drift**2 + 4 * drift * noise)) / 2
    return np.asarray(spread / (spread + noise))
