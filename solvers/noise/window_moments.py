"""How loads vary from window to window: first pass, in chunks of key groups.

A key group's load in a window is a share of the total load of the window: x_kw = c_w (m_k + e_kw),
where c_w is the total of window w over the mean total, and m_k the key group's mean load. The
residual r_kw = x_kw - c_w m_k is what the key group does by itself. It sums to zero over key
groups and over windows, so it is the linear form of the error of a share [ratio estimator]. A
window without records has c_w = 0 and no residual: it adds nothing to the noise, as it adds
nothing to the means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model.problem import FloatArray, IntArray

SLOW_WAVES = 2
"""Number of cosine waves whose power is the estimate of the noise of the period's mean."""
WILD = 5.0
"""A window is wild if the residuals of nodes are this many times those of the median window."""
MOST_WILD = 1 / 6
"""If a larger share of the windows is wild, none is damped: the load then varies in this way."""
ROUNDING = 1e-9
"""A standard deviation below this share of the mean is rounding."""


@dataclass(frozen=True, eq=False, slots=True)
class WindowFactors:
    """What all key groups of a window have in common, and the weight of each window."""

    node_loads: FloatArray  # [N, W]
    """The load of each node in each window, oldest window first."""
    factor: FloatArray  # [W]
    """Total load of the window / mean of the windows' totals; all 0 if nothing was loaded."""
    damping: FloatArray  # [W], in (0, 1]
    """Factor on the residuals of the window: below 1 for wild windows."""

    @property
    def windows(self) -> int:
        return len(self.factor)

    @property
    def busy_windows(self) -> int:
        """Windows with any load."""
        return int(np.count_nonzero(self.factor))

    @property
    def wild_windows(self) -> int:
        """Number of windows that differ so much from the others that they have less weight."""
        return int(np.count_nonzero(self.damping < 1))

    def residuals(self, loads: FloatArray) -> FloatArray:
        """[G, W]: loads without what all key groups have in common."""
        found: FloatArray = loads - loads.mean(axis=1)[:, None] * self.factor
        return found

    def variance(self, residuals: FloatArray) -> FloatArray:
        """[G]: variance from window to window; the variance of the mean is this over the
        windows."""
        busy = self.busy_windows
        if busy < 2:
            return np.zeros(len(residuals))
        scale = busy / ((busy - 1) * self.windows)
        variance: FloatArray = np.einsum("kw,kw->k", residuals, residuals) * scale
        return variance


def window_factors(node_loads: FloatArray) -> WindowFactors:
    """Compute what the windows have in common, from the loads of nodes.

    Args:
        node_loads: [N, W], sum of the loads of each node's key groups in each window, oldest
            window first. Traffic has no nodes: its total is a single row.
    """
    node_loads = np.asarray(node_loads, dtype=np.float64)
    total = node_loads.sum(axis=0)
    mean = total.mean() if len(total) else 0.0
    factor = total / mean if mean > 0 else np.zeros_like(total)
    plain = WindowFactors(node_loads, factor, np.ones_like(factor))
    return WindowFactors(node_loads, factor, _damping(plain.residuals(node_loads)))


def _damping(residuals: FloatArray) -> FloatArray:
    """[W]: factors that reduce the residuals of single wild windows to those of others."""
    power = np.einsum("iw,iw->w", residuals, residuals)
    damping: FloatArray = np.ones_like(power)
    busy = power > 0
    if not busy.any():
        return damping
    limit = np.median(power[busy]) * WILD**2
    wild = power > limit
    if 0 < np.count_nonzero(wild) <= MOST_WILD * len(power):
        damping[wild] = np.sqrt(limit / power[wild])
    return damping


@dataclass(frozen=True, eq=False, slots=True)
class EarlierLoads:
    """The loads of the same key groups in the snapshot before, in units of this period.

    They are multiplied by the total load now over the total load then. NaN means unknown. The mean
    and the level of a key group that has moved since are unknown, because its load depends on the
    node.
    """

    mean: FloatArray  # [G]
    level: FloatArray  # [G]
    """The expected load then, from all periods up to that one."""
    level_error: FloatArray  # [G]
    window_sd: FloatArray  # [G]
    windows: int
    """Windows of the period before."""

    def rows(self, chosen: slice | IntArray) -> EarlierLoads:
        """The rows of some key groups."""
        return EarlierLoads(
            mean=self.mean[chosen],
            level=self.level[chosen],
            level_error=self.level_error[chosen],
            window_sd=self.window_sd[chosen],
            windows=self.windows,
        )


@dataclass(frozen=True, eq=False, slots=True)
class KeyGroupMoments:
    """Mean and variance of the load of each key group."""

    mean: FloatArray  # [G]
    variance: FloatArray  # [G]
    """Variance from window to window, without the common factor, with wild windows damped."""
    full_variance: FloatArray  # [G]
    """The same without damping, because the error of the mean contains wild windows."""
    slow_variance: FloatArray  # [G]
    """Variance of the period's mean, multiplied by the number of windows."""
    half_variance: FloatArray  # [G, 2]
    """The variance within each half of the period."""
    busy_windows: IntArray  # [G]
    windows: int
    """Windows of the period."""
    earlier: EarlierLoads | None = None


def key_group_moments(
    loads: FloatArray, windows: WindowFactors, earlier: EarlierLoads | None = None
) -> KeyGroupMoments:
    """Moments of a chunk of key groups.

    Args:
        loads: [G, W], load of each key group in each window, oldest window first; 0 where it had
            no records.
        windows: what the windows have in common.
        earlier: what the snapshot before says of these key groups; None if there is none.
    """
    loads = np.asarray(loads, dtype=np.float64)
    residuals = windows.residuals(loads)
    damped = residuals * windows.damping
    mean = loads.mean(axis=1) if loads.shape[1] else np.zeros(len(loads))
    variance, full = windows.variance(damped), windows.variance(residuals)
    rounding = variance <= (ROUNDING * mean) ** 2
    variance[rounding], full[full <= (ROUNDING * mean) ** 2] = 0.0, 0.0
    slow = np.where(rounding, 0.0, slow_power(damped, windows))
    halves = _half_variances(damped)
    busy = np.count_nonzero(loads, axis=1)
    return KeyGroupMoments(mean, variance, full, slow, halves, busy, windows.windows, earlier)


def _half_variances(residuals: FloatArray) -> FloatArray:
    """[G, 2]: variance within each half of the period; 0 where a half is a single window."""
    halves = np.array_split(residuals, 2, axis=1)
    return np.stack(
        [
            half.var(axis=1, ddof=1) if half.shape[1] > 1 else np.zeros(len(residuals))
            for half in halves
        ],
        axis=1,
    )


def slow_power(residuals: FloatArray, windows: WindowFactors) -> FloatArray:
    """[G]: mean power of the slowest cosine waves over the period, as a variance per window.

    Independent windows have the same power in every wave. Waves slower than the period cannot be
    measured within it, so the slowest measurable ones are the estimate [equal-weighted cosine
    estimator of Lazarus, Lewis, Stock and Watson, 2018].
    """
    waves = cosine_waves(windows.windows)
    if not len(waves):
        return windows.variance(residuals)
    power: FloatArray = np.mean((residuals @ waves.T) ** 2, axis=1)
    return power


def cosine_waves(windows: int) -> FloatArray:
    """[J, W]: the slowest cosine waves, orthonormal and without a mean."""
    count = min(SLOW_WAVES, windows - 1)
    at = (np.arange(windows) + 0.5) / max(windows, 1)
    wave = np.arange(1, count + 1)[:, None]
    return np.asarray(np.sqrt(2.0 / max(windows, 1)) * np.cos(np.pi * wave * at))


CHANGE_LIMIT = 9.0
"""Limit on the change of a key group from period to period, in multiples of its variance: a load
that changed by more did not change by noise."""

WEIGHT_POWER = -0.75
"""Power of its noise by which a key group weighs in the distances from levels. With 0 a few heavy
key groups would decide, with -1 those with hardly any noise."""


@dataclass(frozen=True, slots=True)
class MomentSums:
    """Sums over key groups; those of chunks are added up."""

    variance: float = 0.0
    squared_variance: float = 0.0
    slow_variance: float = 0.0
    change: float = 0.0
    """Sum of squared changes since the period before, divided by the change of a variance of 1."""
    change_variance: float = 0.0
    """Sum of the variances of the same key groups."""
    distance: float = 0.0
    """Weighted sum of squared distances from the levels of the snapshot before, less the squared
    errors of these levels, in units of the variance of a window."""
    distance_variance: float = 0.0
    """Sum of the variances of the same key groups, with the same weights."""
    noisy: float = 0.0
    """Number of key groups with a mean and variances above zero. The next sums are of logarithms of
    these: of the mean, and of the variance within each half of the period."""
    mean: float = 0.0
    mean_mean: float = 0.0
    first: float = 0.0
    second: float = 0.0
    first_first: float = 0.0
    second_second: float = 0.0
    first_second: float = 0.0
    mean_first: float = 0.0
    mean_second: float = 0.0

    def __add__(self, other: MomentSums) -> MomentSums:
        """The sums of both chunks."""
        return MomentSums(*(a + b for a, b in zip(self.values, other.values, strict=True)))

    @property
    def values(self) -> tuple[float, ...]:
        """The sums in the order of the fields, to be stored in a row and read back."""
        return tuple(getattr(self, name) for name in self.__slots__)


def moment_sums(moments: KeyGroupMoments) -> MomentSums:
    """The sums of one chunk."""
    change, change_variance = _changes(moments)
    distance, distance_variance = _distances(moments)
    noisy = (moments.mean > 0) & (moments.half_variance > 0).all(axis=1)
    x = np.log(moments.mean[noisy])
    y, z = np.log(moments.half_variance[noisy]).T
    return MomentSums(
        variance=float(moments.variance.sum()),
        squared_variance=float((moments.variance**2).sum()),
        slow_variance=float(moments.slow_variance.sum()),
        change=change,
        change_variance=change_variance,
        distance=distance,
        distance_variance=distance_variance,
        noisy=float(np.count_nonzero(noisy)),
        mean=float(x.sum()),
        mean_mean=float(x @ x),
        first=float(y.sum()),
        second=float(z.sum()),
        first_first=float(y @ y),
        second_second=float(z @ z),
        first_second=float(y @ z),
        mean_first=float(x @ y),
        mean_second=float(x @ z),
    )


def _changes(moments: KeyGroupMoments) -> tuple[float, float]:
    """(squared changes since the period before in units of window variance, these variances)."""
    earlier = moments.earlier
    if earlier is None:
        return 0.0, 0.0
    known = np.isfinite(earlier.mean) & np.isfinite(earlier.window_sd)
    variance = 0.5 * (moments.variance + earlier.window_sd**2)[known]
    squared = (moments.mean - earlier.mean)[known] ** 2
    squared /= 1 / moments.windows + 1 / earlier.windows
    return float(np.minimum(squared, CHANGE_LIMIT * variance).sum()), float(variance.sum())


def _distances(moments: KeyGroupMoments) -> tuple[float, float]:
    """(squared distances from the levels before beyond their errors, variances), both weighted.

    The level is known better than the mean of one period, and loads that go on moving the same way
    leave it behind. So this shows changes that are too slow for two periods next to each other.
    """
    earlier = moments.earlier
    if earlier is None:
        return 0.0, 0.0
    known = np.isfinite(earlier.level) & np.isfinite(earlier.level_error)
    known &= np.isfinite(earlier.window_sd)
    variance = 0.5 * (moments.variance + earlier.window_sd**2)[known]
    error = earlier.level_error[known] ** 2
    by_noise = error + variance / moments.windows
    squared = np.minimum((moments.mean - earlier.level)[known] ** 2, CHANGE_LIMIT * by_noise)
    weight = np.zeros_like(by_noise)
    np.power(by_noise, WEIGHT_POWER, out=weight, where=by_noise > 0)
    return float(weight @ (squared - error)) * moments.windows, float(weight @ variance)
