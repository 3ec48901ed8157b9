"""How loads vary from window to window: what key groups have in common, and the second pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma  # type: ignore[import-untyped]
from scipy.stats import t as student  # type: ignore[import-untyped]

from solvers.model.problem import FloatArray, IntArray
from solvers.noise.window_moments import (
    SLOW_WAVES,
    KeyGroupMoments,
    MomentSums,
    WindowFactors,
    cosine_waves,
    key_group_moments,
    moment_sums,
    window_factors,
)

STEADY, TREND, TOO_FEW = "steady", "trend", "too_few_windows"
FEWEST_WINDOWS = 4
"""With fewer busy windows neither noise nor trend can be told."""
RATIO_PRIOR = 20.0
"""A ratio without evidence is 1; this is the weight of that, in degrees of freedom."""
LOWEST_RATIO, HIGHEST_RATIO = 0.1, 20.0
PRIOR_LIMITS = (0.5, 100.0)
"""Least and most degrees of freedom that the power law counts for."""
TREND_LEVEL = 0.001
"""A period without a trend is said to have one with this probability."""


@dataclass(frozen=True, slots=True)
class VariancePrior:
    """The variance that a key group of a given mean load has on average: a power law of the mean.

    Variances of few windows are drawn towards it [Smyth 2004; limma]: 12 windows alone would give
    standard deviations that are off by a fifth.
    """

    intercept: float
    slope: float
    freedom: float
    """Degrees of freedom that the power law counts for; 0 if there is none."""

    def at(self, mean: FloatArray) -> FloatArray:
        """[G]: the variance at each mean; 0 where the mean is 0."""
        variance = np.zeros_like(mean)
        loaded = mean > 0
        variance[loaded] = np.exp(self.intercept + self.slope * np.log(mean[loaded]))
        return variance


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """What key groups have in common, for the second pass over them."""

    windows: int
    """Windows of the period."""
    busy_windows: int
    period_variance_ratio: float
    prior: VariancePrior

    @property
    def is_known(self) -> bool:
        """Whether there were enough windows for an estimate."""
        return self.busy_windows >= FEWEST_WINDOWS


@dataclass(frozen=True, eq=False, slots=True)
class KeyGroupNoise:
    """The columns of a snapshot that say how far the load of each key group may be off."""

    window_sd: FloatArray  # [G]; NaN if there were too few windows
    mean_error: FloatArray  # [G]; NaN if there were too few windows
    busy_windows: IntArray  # [G]


@dataclass(frozen=True, slots=True)
class ResourceNoise:
    """The noise of one resource: a row of ``snapshots.noise``."""

    resource: str
    status: str
    """``steady``, ``trend`` or ``too_few_windows``."""
    reason: str
    """The status in a sentence."""
    windows: int
    wild_windows: int
    common_sd_pct: float
    node_variance_ratio: float
    period_variance_ratio: float
    trend_pct: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether there were enough windows for an estimate."""
        return self.status != TOO_FEW


def noise_model(sums: MomentSums, windows: WindowFactors) -> NoiseModel:
    """What key groups have in common.

    Args:
        sums: the sums of all chunks.
        windows: what the windows have in common.
    """
    freedom = windows.busy_windows - 1
    return NoiseModel(
        windows.windows, windows.busy_windows, _period_ratio(sums), _prior(sums, freedom)
    )


def _period_ratio(sums: MomentSums) -> float:
    """Power of the slow waves over that of all, drawn to 1 by the prior."""
    if sums.variance <= 0:
        return 1.0
    groups = sums.variance**2 / sums.squared_variance
    return _drawn_to(1.0, sums.slow_variance / sums.variance, SLOW_WAVES * groups)


def _drawn_to(prior: float, ratio: float, freedom: float) -> float:
    """The ratio, drawn to the prior by the weight of the degrees of freedom, and bounded."""
    drawn = (RATIO_PRIOR * prior + freedom * ratio) / (RATIO_PRIOR + freedom)
    return float(min(max(drawn, LOWEST_RATIO), HIGHEST_RATIO))


def _prior(sums: MomentSums, freedom: int) -> VariancePrior:
    """Fit log variance = intercept + slope x log mean, and how tightly it holds."""
    if sums.noisy < 3 or freedom < 1:
        return VariancePrior(0.0, 0.0, 0.0)
    n = sums.noisy
    x, y = sums.log_mean / n, sums.log_variance / n
    xx = max(0.0, sums.log_mean_squared / n - x * x)
    xy = sums.log_product / n - x * y
    slope = min(max(xy / xx, 0.0), 2.0) if xx > 1e-12 else 1.0
    yy = sums.log_variance_squared / n - y * y
    left = max(0.0, yy - 2 * slope * xy + slope**2 * xx) * n / (n - 2)
    half = freedom / 2
    held = inverse_trigamma(left - float(polygamma(1, half)))
    prior_freedom = min(max(2 * held, PRIOR_LIMITS[0]), PRIOR_LIMITS[1])
    bias = _log_bias(half) - _log_bias(prior_freedom / 2)
    return VariancePrior(y - slope * x - bias, slope, prior_freedom)


def _log_bias(half: float) -> float:
    """Mean of the logarithm of a variance with 2 x half degrees of freedom, for a variance of 1."""
    return float(digamma(half) - np.log(half))


def inverse_trigamma(value: float) -> float:
    """The x with trigamma(x) = value; infinity where the value is not above 0."""
    if value <= 0:
        return float("inf")
    x = 0.5 + 1 / value
    for _ in range(20):
        trigamma = float(polygamma(1, x))
        x += trigamma * (1 - trigamma / value) / float(polygamma(2, x))
    return x


def key_group_noise(moments: KeyGroupMoments, model: NoiseModel) -> KeyGroupNoise:
    """The second pass over a chunk of key groups.

    Args:
        moments: what the first pass found; ``slow_variance`` is not used.
        model: what all key groups have in common.
    """
    if not model.is_known:
        unknown = np.full(len(moments.mean), np.nan)
        return KeyGroupNoise(unknown, unknown.copy(), moments.busy_windows)
    variance = _drawn_variance(moments, model)
    full = np.maximum(variance, moments.full_variance)
    error = full * model.period_variance_ratio / model.windows
    return KeyGroupNoise(np.sqrt(variance), np.sqrt(error), moments.busy_windows)


def _drawn_variance(moments: KeyGroupMoments, model: NoiseModel) -> FloatArray:
    """[G]: variances drawn towards the power law; a load that is constant stays without noise."""
    prior, own = model.prior, model.busy_windows - 1
    drawn = (prior.freedom * prior.at(moments.mean) + own * moments.variance) / (
        prior.freedom + own
    )
    return np.asarray(np.where(moments.variance > 0, drawn, 0.0))


def resource_noise(
    resource: str, windows: WindowFactors, model: NoiseModel, total_variance: float
) -> ResourceNoise:
    """The noise of one resource.

    Args:
        resource: its name.
        windows: what the windows have in common.
        model: what key groups have in common.
        total_variance: sum of the squares of ``window_sd`` over all key groups.
    """
    common = _common_sd(windows)
    if not model.is_known:
        reason = (
            f"{model.busy_windows} of {model.windows} windows have a load; "
            f"an estimate of the noise needs {FEWEST_WINDOWS}"
        )
        return ResourceNoise(
            resource, TOO_FEW, reason, model.windows, windows.wild_windows, common, 1.0, 1.0
        )
    trend, limit = _trend(windows)
    is_trend = trend > limit
    steady = f"the two halves of the period differ by {trend:.1f} % of the mean, within the noise"
    moved = (
        f"the loads of nodes changed by {trend:.1f} % of the mean within the period, "
        f"beyond the noise of {limit:.1f}"
    )
    return ResourceNoise(
        resource,
        TREND if is_trend else STEADY,
        moved if is_trend else steady,
        model.windows,
        windows.wild_windows,
        common,
        _node_ratio(windows, total_variance),
        model.period_variance_ratio,
        trend if is_trend else None,
    )


def _common_sd(windows: WindowFactors) -> float:
    """Standard deviation of the windows' totals in percent of their mean."""
    return float(100.0 * np.std(windows.factor, ddof=1)) if windows.windows > 1 else 0.0


def _node_ratio(windows: WindowFactors, total_variance: float) -> float:
    """Variance of nodes over that of their key groups, drawn to what independence would give."""
    damped = windows.residuals(windows.node_loads) * windows.damping
    mean = windows.node_loads.mean(axis=1)
    nodes = int(np.count_nonzero(mean))
    if total_variance <= 0 or nodes < 2:
        return 1.0
    variance = float(windows.variance(damped).sum())
    # Shares sum to 1, which takes this part of the variance away.
    share = mean / mean.sum()
    independent = 1.0 - float(share @ share)
    freedom = (nodes - 1) * (windows.busy_windows - 1)
    return _drawn_to(1.0, variance / (independent * total_variance), freedom) * independent


def _trend(windows: WindowFactors) -> tuple[float, float]:
    """(largest change of a node between the halves of the period, the change that noise makes).

    Both in percent of the mean load of a node. The noise is that of the other waves of the period,
    so a trend does not hide itself.
    """
    nodes = windows.node_loads[windows.node_loads.sum(axis=1) > 0]
    if len(nodes) < 2:
        return 0.0, 0.0
    residuals = windows.residuals(nodes)
    count = windows.windows
    early = count // 2
    change = residuals[:, count - early :].mean(axis=1) - residuals[:, :early].mean(axis=1)
    slow = residuals @ cosine_waves(count)[:1].T
    others = np.einsum("iw,iw->i", residuals, residuals) - slow[:, 0] ** 2
    freedom = (len(nodes) - 1) * max(1, windows.busy_windows - 2)
    sd = np.sqrt(others.sum() / freedom * 2.0 / max(1, early))
    mean = nodes.mean(axis=1).mean()
    quantile = float(student.ppf(1 - TREND_LEVEL / (2 * len(nodes)), freedom))
    return 100.0 * float(np.abs(change).max() / mean), 100.0 * float(sd * quantile / mean)


@dataclass(frozen=True, eq=False, slots=True)
class LoadEstimate:
    """Everything that the windows of one period say about the loads of a resource."""

    mean: FloatArray  # [G]
    key_groups: KeyGroupNoise
    resource: ResourceNoise


def estimate_loads(
    resource: str, loads: FloatArray, node_of: IntArray, n_nodes: int
) -> LoadEstimate:
    """Estimate means and noise in one call, where all key groups fit into memory.

    Args:
        resource: name of the resource.
        loads: [G, W], load of each key group in each window, oldest window first.
        node_of: [G], the node of each key group during the period.
        n_nodes: number of nodes.
    """
    windows = window_factors(node_window_loads(loads, node_of, n_nodes))
    moments = key_group_moments(loads, windows)
    model = noise_model(moment_sums(moments), windows)
    noise = key_group_noise(moments, model)
    total = float(np.nansum(noise.window_sd**2))
    return LoadEstimate(moments.mean, noise, resource_noise(resource, windows, model, total))


def node_window_loads(loads: FloatArray, node_of: IntArray, n_nodes: int) -> FloatArray:
    """[N, W]: loads of nodes in windows, from the loads of key groups."""
    columns = [np.bincount(node_of, weights=column, minlength=n_nodes) for column in loads.T]
    return np.array(columns).T.reshape(n_nodes, loads.shape[1])


def rows_by_resource(rows: Sequence[ResourceNoise]) -> dict[str, ResourceNoise]:
    """Rows by the name of their resource."""
    return {row.resource: row for row in rows}
