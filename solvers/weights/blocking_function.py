"""The blocking-rate function of a connection: [MW16-REGIONS, 5.1].

Measurements at some weights are smoothed into raw data, made non-decreasing by monotone regression,
and completed by linear interpolation and extrapolation. F(0) = 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import isotonic_regression  # type: ignore[import-untyped]

from solvers.model.problem import FloatArray


@dataclass(slots=True)
class RawData:
    """Smoothed blocking rate and number of measurements at each weight that was tried."""

    rate: dict[int, float] = field(default_factory=dict)
    count: dict[int, float] = field(default_factory=dict)

    def add(self, weight: int, rate: float, smoothing: float) -> None:
        """Exponential smoothing: the new value has the share ``smoothing``."""
        old = self.rate.get(weight)
        self.rate[weight] = rate if old is None else old + smoothing * (rate - old)
        self.count[weight] = self.count.get(weight, 0.0) + 1.0

    def forget_above(self, weight: int, decay: float) -> None:
        """Reduce the blocking rates of larger weights, so that these are tried again (5.4)."""
        for heavier in self.rate:
            if heavier > weight:
                self.rate[heavier] *= 1.0 - decay

    def copy(self) -> RawData:
        return RawData(dict(self.rate), dict(self.count))

    @classmethod
    def pooled(cls, members: Iterable[RawData]) -> RawData:
        """The data of all members of a cluster, weighted by the number of measurements (5.3)."""
        sums: dict[int, float] = {}
        together = cls()
        for member in members:
            for weight, rate in member.rate.items():
                count = member.count[weight]
                sums[weight] = sums.get(weight, 0.0) + rate * count
                together.count[weight] = together.count.get(weight, 0.0) + count
        together.rate = {w: sums[w] / together.count[w] for w in sums}
        return together


def blocking_function(raw: RawData, units: int, delta: float) -> FloatArray:
    """[units + 1]: F at every weight, non-decreasing, and rising by at least ``delta`` a unit.

    The paper introduces delta "when we need to force monotonicity". It makes flat parts rise
    slightly, so that equal connections share evenly and no logarithm is of zero.
    """
    weights = np.array(sorted(w for w in raw.rate if w > 0), dtype=np.int64)
    grid = np.arange(units + 1, dtype=np.float64)
    slope = delta * grid
    if not len(weights):
        return slope
    rates = np.array([raw.rate[w] for w in weights.tolist()])
    counts = np.array([raw.count[w] for w in weights.tolist()])
    monotone = isotonic_regression(rates, weights=counts, increasing=True).x
    known_w = np.concatenate(([0.0], weights.astype(np.float64)))
    known_f = np.concatenate(([0.0], np.maximum(monotone, 0.0)))
    values = np.interp(grid, known_w, known_f)
    beyond = grid > known_w[-1]
    last_slope = (known_f[-1] - known_f[-2]) / (known_w[-1] - known_w[-2])
    values[beyond] = known_f[-1] + last_slope * (grid[beyond] - known_w[-1])
    return np.asarray(values + slope, dtype=np.float64)


def first_blocking(function: FloatArray, delta: float) -> int:
    """w_s: the smallest weight whose blocking rate exceeds the slope of delta (5.3)."""
    grid = np.arange(len(function), dtype=np.float64)
    blocks = np.flatnonzero(function - delta * grid > delta)
    return int(blocks[0]) if len(blocks) else len(function) - 1
