"""Estimates how loads vary from window to window: common factors, and the noise of each key
group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student  # type: ignore[import-untyped]

from solvers.model.problem import BoolArray, FloatArray, IntArray
from solvers.noise.window_moments import (
    SLOW_WAVES,
    EarlierLoads,
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
"""Least number of busy windows; with fewer, neither noise nor trend can be estimated."""
RATIO_PRIOR = 20.0
"""Weight of the prior of a ratio, in degrees of freedom: without data a ratio is 1."""
LOWEST_RATIO, HIGHEST_RATIO = 0.1, 20.0
NEWEST_SHARE = 0.25
"""Weight of this period; the estimate of the snapshot before has the rest. So noise is estimated
over about seven periods."""
MOST_TRUSTED = 0.97
"""Largest weight of a key group's own variance; the power law has at least the rest."""
LEAST_DRIFT = 0.1
"""Least drift from period to period, as a share of the variance of a mean. It limits the number of
periods that contribute to a level to about six."""
LARGEST_JUMP = 4.0
"""A load that is further from its level than this many standard deviations has changed for other
reasons than noise."""
JUMP_LEVEL = 0.01
"""Probability, per period, that a node counts as changed although its load has not changed."""
TREND_LEVEL = 0.001
"""Probability that a period counts as one with a trend although it has none."""
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class VariancePrior:
    """The average variance of a key group with a given mean load: a power law of the mean.

    A variance from few windows is shrunk towards this average. The weight of the average is larger
    if the variances of the two halves of the period differ more [credibility theory, Buehlmann
    1967]. Twelve windows alone would give standard deviations with an error of a fifth, and a
    larger one for loads with occasional bursts.
    """

    intercept: float = 0.0
    slope: float = 1.0
    own_weight: float = 1.0
    """Weight of a key group's own variance; the power law has the rest."""

    def at(self, mean: FloatArray) -> FloatArray:
        """[G]: the variance at each mean; 0 where the mean is 0."""
        variance = np.zeros_like(mean)
        loaded = mean > 0
        variance[loaded] = np.exp(self.intercept + self.slope * np.log(mean[loaded]))
        return variance


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """What key groups have in common: the result of the first pass, and the input of the second."""

    windows: int
    """Windows of the period."""
    busy_windows: int
    mean_variance_ratio: float
    """Variance of the mean of this period, divided by that of the mean of as many independent
    windows."""
    period_variance_ratio: float
    """Squared change of means from period to period, divided by that of independent windows. Each
    of the two periods has half of the change."""
    prior: VariancePrior
    change_ratio: float = 0.0
    """Variance of the change of true loads from period to period, over the squared errors of the
    means of a period; below 0 where loads changed by less than noise, so that the mean over many
    snapshots of loads that stand still is about 0."""
    earlier: ResourceNoise | None = None
    """The estimate of the snapshot before."""

    @property
    def is_known(self) -> bool:
        """Whether there were enough windows for an estimate."""
        return self.busy_windows >= FEWEST_WINDOWS

    @property
    def drift_ratio(self) -> float:
        """Variance of the change of true loads from period to period, over the variance of a
        window: by the periods next to each other, or by the distances from levels."""
        beyond = 2.0 * (self.period_variance_ratio - self.mean_variance_ratio)
        by_distance = self.change_ratio * self.mean_variance_ratio
        return max(0.0, beyond, by_distance) / max(1, self.windows)


@dataclass(frozen=True, eq=False, slots=True)
class KeyGroupNoise:
    """The noise of each key group: the columns of a snapshot for the error of each load."""

    window_sd: FloatArray  # [G]; NaN if there were too few windows, as in all of them
    mean_error: FloatArray  # [G]
    level: FloatArray  # [G]
    """Expected load: the mean of this period and, with less weight, of periods before."""
    level_error: FloatArray  # [G]
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
    change_ratio: float = 0.0
    """As in ``NoiseModel``."""

    @property
    def is_known(self) -> bool:
        """Whether there were enough windows for an estimate."""
        return self.status != TOO_FEW


def noise_model(
    sums: MomentSums, windows: WindowFactors, earlier: ResourceNoise | None = None
) -> NoiseModel:
    """Estimate what key groups have in common.

    Args:
        sums: the sums of all chunks.
        windows: what the windows have in common.
        earlier: the estimate of the snapshot before; None if there is none.
    """
    within = _within_ratio(sums)
    between, change = _between_ratio(sums, within), _change_ratio(sums, within)
    if earlier is not None and earlier.is_known:
        between = _smoothed(between, earlier.period_variance_ratio)
        change = _smoothed(change, earlier.change_ratio)
    return NoiseModel(
        windows.windows, windows.busy_windows, within, between, _prior(sums, windows),
        change, earlier,
    )  # fmt: skip


def _within_ratio(sums: MomentSums) -> float:
    """Power of the slow waves of the period, divided by that of all waves, shrunk to 1."""
    if sums.variance <= 0:
        return 1.0
    ratio = sums.slow_variance / sums.variance
    return _shrunk_to(1.0, ratio, SLOW_WAVES * _effective_groups(sums))


def _between_ratio(sums: MomentSums, within: float) -> float:
    """Change since the period before, divided by that of independent windows, shrunk to
    ``within``."""
    if sums.change_variance <= 0:
        return within
    return _shrunk_to(within, sums.change / sums.change_variance, _effective_groups(sums))


def _change_ratio(sums: MomentSums, within: float) -> float:
    """Squared distances from the levels beyond the noise of the period, over this noise."""
    if sums.distance_variance <= 0:
        return 0.0
    ratio = sums.distance / sums.distance_variance / within
    return min(max(ratio, LOWEST_RATIO), HIGHEST_RATIO) - 1.0


def _effective_groups(sums: MomentSums) -> float:
    """Number of key groups with equal noise that have as many degrees of freedom; 0 without
    noise."""
    return sums.variance**2 / sums.squared_variance if sums.squared_variance > 0 else 0.0


def _shrunk_to(prior: float, ratio: float, freedom: float) -> float:
    """The weighted mean of the prior and the ratio, by degrees of freedom, within bounds."""
    shrunk = (RATIO_PRIOR * prior + freedom * ratio) / (RATIO_PRIOR + freedom)
    return float(min(max(shrunk, LOWEST_RATIO), HIGHEST_RATIO))


def _smoothed(now: float, earlier: float) -> float:
    """The weighted mean of an estimate of this period and the one of the snapshot before."""
    return NEWEST_SHARE * now + (1 - NEWEST_SHARE) * earlier


def _prior(sums: MomentSums, windows: WindowFactors) -> VariancePrior:
    """Fit the power law to the logarithms of variance and mean, and compute its weight."""
    n = sums.noisy
    if n < 3 or windows.busy_windows < FEWEST_WINDOWS:
        return VariancePrior()
    x, y, z = sums.mean / n, sums.first / n, sums.second / n
    xx = max(0.0, sums.mean_mean / n - x * x)
    xy, xz = sums.mean_first / n - x * y, sums.mean_second / n - x * z
    slope = min(max((xy + xz) / (2 * xx), 0.0), 2.0) if xx > TINY else 1.0
    yy = sums.first_first / n - y * y - 2 * slope * xy + slope**2 * xx
    zz = sums.second_second / n - z * z - 2 * slope * xz + slope**2 * xx
    yz = sums.first_second / n - y * z - slope * (xy + xz) + slope**2 * xx
    spread = max(0.5 * (yy + zz), TINY)
    agreement = min(max(yz / spread, 0.0), 1.0)
    own = min(2 * agreement / (1 + agreement), MOST_TRUSTED)
    # The mean of a log-normal variable is half its variance above the mean of its logarithm.
    return VariancePrior(0.5 * (y + z) + 0.5 * spread - slope * x, slope, own)


def key_group_noise(
    moments: KeyGroupMoments, model: NoiseModel, has_jumped: BoolArray | None = None
) -> KeyGroupNoise:
    """Second pass: the noise of a chunk of key groups.

    Args:
        moments: the result of the first pass.
        model: what all key groups have in common.
        has_jumped: [G], key groups on nodes whose load changed beyond noise since the snapshot
            before; None if there are none.
    """
    if not model.is_known:
        unknown = np.full(len(moments.mean), np.nan)
        return KeyGroupNoise(unknown, unknown, unknown, unknown, moments.busy_windows)
    variance = _shrunk_variance(moments, model.prior)
    full = np.maximum(variance, moments.full_variance)
    error = full * model.mean_variance_ratio / model.windows
    level, level_error = moments.mean, error
    if moments.earlier is not None:
        drift = np.maximum(model.drift_ratio * variance, LEAST_DRIFT * error)
        level, level_error = _levels(moments.mean, error, drift, moments.earlier, has_jumped)
    return KeyGroupNoise(
        np.sqrt(variance), np.sqrt(error), level, np.sqrt(level_error), moments.busy_windows
    )


def _levels(
    mean: FloatArray,
    error: FloatArray,
    drift: FloatArray,
    earlier: EarlierLoads,
    has_jumped: BoolArray | None,
) -> tuple[FloatArray, FloatArray]:
    """([G], [G]): levels after this period, and the variance of their errors [Kalman filter]."""
    before = earlier.level_error**2 + drift
    gap = mean - earlier.level
    known = np.isfinite(before) & np.isfinite(gap)
    known[known] = gap[known] ** 2 <= LARGEST_JUMP**2 * (before + error)[known]
    if has_jumped is not None:
        known &= ~has_jumped
    total = before + error
    weight = np.ones_like(mean)
    np.divide(before, total, out=weight, where=known & (total > 0))
    level = np.where(known, mean - (1 - weight) * np.where(known, gap, 0.0), mean)
    return level, weight * error


def _shrunk_variance(moments: KeyGroupMoments, prior: VariancePrior) -> FloatArray:
    """[G]: variances shrunk towards the power law, and averaged with those of the snapshot before.

    A constant load has a variance of 0.
    """
    own = prior.own_weight
    variance = (1 - own) * prior.at(moments.mean) + own * moments.variance
    variance = np.where(moments.variance > 0, variance, 0.0)
    if moments.earlier is not None:
        before = moments.earlier.window_sd**2
        known = np.isfinite(before)
        variance[known] = NEWEST_SHARE * variance[known] + (1 - NEWEST_SHARE) * before[known]
    return np.asarray(variance)


def resource_noise(
    resource: str, windows: WindowFactors, model: NoiseModel, total_variance: float
) -> ResourceNoise:
    """The noise of one resource, over all key groups.

    Args:
        resource: its name.
        windows: what the windows have in common.
        model: what key groups have in common.
        total_variance: sum of the squares of ``window_sd`` over all key groups.
    """
    common, earlier = _common_sd(windows), model.earlier
    if not model.is_known:
        reason = (
            f"{model.busy_windows} of {model.windows} windows have a load; "
            f"an estimate of the noise needs {FEWEST_WINDOWS}"
        )
        return ResourceNoise(
            resource, TOO_FEW, reason, model.windows, windows.wild_windows, common, 1.0, 1.0
        )
    ratio = _node_ratio(windows, total_variance)
    if earlier is not None and earlier.is_known:
        ratio = _smoothed(ratio, earlier.node_variance_ratio)
        common = math.sqrt(_smoothed(common**2, earlier.common_sd_pct**2))
    total = _total_change(windows)
    # The mean of the next period is off by twice the change between halves, if that goes on.
    common = max(common, 2.0 * abs(total) * math.sqrt(windows.windows / 2.0))
    trend, limit = _trend(windows)
    is_trend = trend > limit
    steady = f"the two halves of the period differ by {trend:.1f} % of the mean, within the noise"
    moved = (
        f"the loads of nodes changed by {trend:.1f} % of the mean within the period, "
        f"beyond the noise of {limit:.1f}"
    )
    changed = f"; the total load changed by {total:+.1f} % within the period" if total else ""
    return ResourceNoise(
        resource,
        TREND if is_trend else STEADY,
        (moved if is_trend else steady) + changed,
        model.windows,
        windows.wild_windows,
        common,
        ratio,
        model.period_variance_ratio,
        trend if is_trend else None,
        model.change_ratio,
    )


def _common_sd(windows: WindowFactors) -> float:
    """Standard deviation of the windows' totals in percent of their mean."""
    return float(100.0 * np.std(windows.factor, ddof=1)) if windows.windows > 1 else 0.0


def _node_ratio(windows: WindowFactors, total_variance: float) -> float:
    """Variance of nodes divided by that of their key groups, shrunk to the value of
    independence."""
    damped = windows.residuals(windows.node_loads) * windows.damping
    mean = windows.node_loads.mean(axis=1)
    nodes = int(np.count_nonzero(mean))
    if total_variance <= 0 or nodes < 2:
        return 1.0
    variance = float(windows.variance(damped).sum())
    # Shares sum to 1, which lowers the variance by this factor.
    share = mean / mean.sum()
    independent = 1.0 - float(share @ share)
    if independent < TINY:
        # Beside a node with all of the load, the others say nothing about how nodes vary.
        return 1.0
    freedom = (nodes - 1) * (windows.busy_windows - 1)
    return _shrunk_to(1.0, variance / (independent * total_variance), freedom) * independent


def _total_change(windows: WindowFactors) -> float:
    """Change of the total load between the halves of the period, in percent of its mean.

    0 if it is within the noise. It changes loads in cores, and not the shares of nodes.
    """
    change, others = _halves(windows.factor[None, :] - 1.0)
    freedom = max(1, windows.busy_windows - 2)
    limit = _largest_change(float(others.sum()), freedom, windows.windows, tests=1)
    return 100.0 * float(change[0]) if abs(float(change[0])) > limit else 0.0


def _trend(windows: WindowFactors) -> tuple[float, float]:
    """Return the largest change of a node between the halves of the period, and the limit by noise.

    Both are in percent of the mean load of a node.
    """
    nodes = windows.node_loads[windows.node_loads.sum(axis=1) > 0]
    if len(nodes) < 2:
        return 0.0, 0.0
    change, others = _halves(windows.residuals(nodes))
    freedom = (len(nodes) - 1) * max(1, windows.busy_windows - 2)
    limit = _largest_change(float(others.sum()), freedom, windows.windows, tests=len(nodes))
    mean = nodes.mean(axis=1).mean()
    return 100.0 * float(np.abs(change).max() / mean), 100.0 * limit / float(mean)


def _halves(residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[N] each: change between the halves of the period, and power of all waves but the slowest.

    The noise is computed without the slowest wave, because a trend is part of that wave.
    """
    count = residuals.shape[1]
    early = count // 2
    change = residuals[:, count - early :].mean(axis=1) - residuals[:, :early].mean(axis=1)
    slow = residuals @ cosine_waves(count)[:1].T
    others = np.einsum("iw,iw->i", residuals, residuals) - slow[:, 0] ** 2
    return change, np.maximum(others, 0.0)


def _largest_change(power: float, freedom: int, windows: int, *, tests: int) -> float:
    """The largest change between halves that noise of this power explains, over ``tests`` tests."""
    sd = math.sqrt(power / freedom * 2.0 / max(1, windows // 2))
    return sd * float(student.ppf(1 - TREND_LEVEL / (2 * tests), freedom))


@dataclass(frozen=True, eq=False, slots=True)
class LoadEstimate:
    """The estimates of one resource from the windows of one period."""

    mean: FloatArray  # [G]
    key_groups: KeyGroupNoise
    resource: ResourceNoise


@dataclass(frozen=True, eq=False, slots=True)
class EarlierNodes:
    """Sums over the key groups of each node that are in the snapshot before, on the same node."""

    mean: FloatArray  # [N]
    """Sum of their mean loads in this period."""
    level: FloatArray  # [N]
    """Sum of their levels in the snapshot before, in units of this period."""
    level_variance: FloatArray  # [N]
    """Sum of the squares of the errors of these levels."""


def jumped_nodes(windows: WindowFactors, model: NoiseModel, nodes: EarlierNodes) -> BoolArray:
    """[N]: nodes whose load changed beyond noise since the snapshot before.

    A change that is too small to detect in a key group can be large for a node. The levels of its
    key groups would follow it slowly, so they start anew.

    Args:
        windows: what the windows have in common.
        model: what all key groups have in common.
        nodes: the sums of nodes, in the order of ``windows.node_loads``.
    """
    ratio = 1.0 if model.earlier is None else model.earlier.node_variance_ratio
    per_window = windows.variance(windows.residuals(windows.node_loads) * windows.damping)
    known = per_window.sum() > 0
    if not (known and model.is_known and model.earlier is not None):
        return np.zeros(len(nodes.mean), dtype=bool)
    # The variance of all nodes together is estimated better than that of each node.
    share = windows.node_loads.mean(axis=1)
    typical = per_window.sum() * share / share.sum()
    own = typical * (model.mean_variance_ratio / model.windows + model.drift_ratio)
    variance = own + nodes.level_variance * ratio
    gap = nodes.mean - nodes.level
    freedom = (len(gap) - 1) * max(1, model.busy_windows - 1)
    limit = float(student.isf(JUMP_LEVEL / (2 * len(gap)), max(1, freedom)))
    return np.asarray((variance > 0) & (gap**2 > limit**2 * variance))


@dataclass(frozen=True, eq=False, slots=True)
class EarlierEstimate:
    """The estimate of the snapshot before, of the same key groups in the same order."""

    estimate: LoadEstimate
    node_of: IntArray  # [G]

    def for_period(self, total: float, node_of: IntArray) -> EarlierLoads | None:
        """Return the estimate in units of a period with this total load; None if it is not
        known."""
        before, then = self.estimate, float(self.estimate.mean.sum())
        columns = EarlierColumns(
            before.mean,
            before.key_groups.level,
            before.key_groups.level_error,
            before.key_groups.window_sd,
        )
        scale = total / then if then > 0 else 0.0
        return earlier_loads(columns, self.node_of == node_of, before.resource, scale)


@dataclass(frozen=True, eq=False, slots=True)
class EarlierColumns:
    """Columns of the snapshot before, for a chunk of key groups; NaN where it has none."""

    mean: FloatArray  # [G]
    level: FloatArray  # [G]
    level_error: FloatArray  # [G]
    window_sd: FloatArray  # [G]


def earlier_loads(
    columns: EarlierColumns, is_unmoved: BoolArray, resource: ResourceNoise, scale: float
) -> EarlierLoads | None:
    """Return the loads of a chunk of key groups in the snapshot before, in units of this period.

    Args:
        columns: the columns of the snapshot before.
        is_unmoved: [G], whether the key group is on the node where it was.
        resource: its row of ``snapshots.noise``.
        scale: total load now over total load then.

    Returns:
        The earlier loads; None if the noise was not known.
    """
    if not resource.is_known or scale <= 0:
        return None
    return EarlierLoads(
        mean=np.where(is_unmoved, columns.mean * scale, np.nan),
        level=np.where(is_unmoved, columns.level * scale, np.nan),
        level_error=columns.level_error * scale,
        window_sd=columns.window_sd * scale,
        windows=resource.windows,
    )


def estimate_loads(
    resource: str,
    loads: FloatArray,
    node_of: IntArray,
    n_nodes: int,
    earlier: EarlierEstimate | None = None,
) -> LoadEstimate:
    """Estimate means and noise in one call, where all key groups fit into memory.

    Args:
        resource: name of the resource.
        loads: [G, W], load of each key group in each window, oldest window first.
        node_of: [G], the node of each key group during the period.
        n_nodes: number of nodes.
        earlier: the estimate of the snapshot before; None if there is none.
    """
    windows = window_factors(node_window_loads(loads, node_of, n_nodes))
    before = None
    if earlier is not None:
        before = earlier.for_period(float(loads.mean(axis=1).sum()), node_of)
    moments = key_group_moments(loads, windows, before)
    model = noise_model(
        moment_sums(moments), windows, earlier.estimate.resource if earlier is not None else None
    )
    jumped = None
    if before is not None:
        nodes = earlier_nodes(moments.mean, before, node_of, n_nodes)
        jumped = jumped_nodes(windows, model, nodes)[node_of]
    noise = key_group_noise(moments, model, jumped)
    total = float(np.nansum(noise.window_sd**2))
    return LoadEstimate(moments.mean, noise, resource_noise(resource, windows, model, total))


def earlier_nodes(
    mean: FloatArray, earlier: EarlierLoads, node_of: IntArray, n_nodes: int
) -> EarlierNodes:
    """The sums of nodes, if all key groups fit into memory."""
    known = np.isfinite(earlier.level) & np.isfinite(earlier.level_error)

    def sums(values: FloatArray) -> FloatArray:
        return np.bincount(node_of[known], values[known], n_nodes).astype(np.float64)

    return EarlierNodes(sums(mean), sums(earlier.level), sums(earlier.level_error**2))


def node_window_loads(loads: FloatArray, node_of: IntArray, n_nodes: int) -> FloatArray:
    """[N, W]: loads of nodes in windows, from the loads of key groups."""
    columns = [np.bincount(node_of, weights=column, minlength=n_nodes) for column in loads.T]
    table: FloatArray = np.array(columns, dtype=np.float64).T
    return table.reshape(n_nodes, loads.shape[1])


def rows_by_resource(rows: Sequence[ResourceNoise]) -> dict[str, ResourceNoise]:
    """Rows by the name of their resource."""
    return {row.resource: row for row in rows}
