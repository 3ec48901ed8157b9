"""The noise of a problem's loads, from the rows and columns of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ballast.contracts.records import SnapshotNoise
from solvers.model.noise import LoadNoise
from solvers.model.problem import BoolArray, FloatArray
from solvers.noise.noise_estimate import TREND, ResourceNoise, rows_by_resource

UNCERTAIN_CHANGE, UNCERTAIN_CHANGE_OF_ONE = 0.2, 2.5
"""Ratios of the change of true loads to the noise of a period up to which loads may stand still.
The second is that of a single key group; it falls with the square root of their number."""


@dataclass(frozen=True, eq=False, slots=True)
class TrafficNoise:
    """The noise of the rates of edges, in the order of the problem's edges; NaN if unknown."""

    window_sd: FloatArray  # [E]
    mean_error: FloatArray  # [E]


class StoredNoise(Protocol):
    """What a snapshot stores about noise, as ``ballast.contracts.problem_columns`` defines it."""

    @property
    def window_sd(self) -> FloatArray: ...
    @property
    def mean_error(self) -> FloatArray: ...
    @property
    def level_error(self) -> FloatArray: ...
    @property
    def rows(self) -> Sequence[SnapshotNoise]: ...
    @property
    def traffic_window_sd(self) -> FloatArray | None: ...
    @property
    def traffic_mean_error(self) -> FloatArray | None: ...


def noise_of_snapshot(resources: Sequence[str], stored: StoredNoise | None) -> LoadNoise | None:
    """The noise of a problem's loads; None if the snapshot does not have it.

    Args:
        resources: names of the problem's resources, one for each column.
        stored: the noise that the snapshot has; None if it has none.
    """
    if stored is None:
        return None
    traffic = None
    if stored.traffic_window_sd is not None and stored.traffic_mean_error is not None:
        traffic = TrafficNoise(stored.traffic_window_sd, stored.traffic_mean_error)
    rows = [resource_noise_of(row) for row in stored.rows]
    return load_noise(
        resources, stored.window_sd, stored.mean_error, rows, traffic, stored.level_error
    )


def load_noise(
    resources: Sequence[str],
    window_sd: FloatArray,
    mean_error: FloatArray,
    rows: Sequence[ResourceNoise],
    traffic: TrafficNoise | None = None,
    level_error: FloatArray | None = None,
) -> LoadNoise | None:
    """The noise of a problem's loads.

    Args:
        resources: names of the problem's resources, one for each column.
        window_sd: [G, R], stored standard deviations from window to window; NaN if unknown. A
            column of zeros stands for a resource without noise, such as memory.
        mean_error: [G, R], stored standard errors of the means; NaN if unknown.
        rows: stored rows of resources; a resource that has no noise needs none.
        traffic: the noise of the edges; None if unknown.
        level_error: [G, R], stored standard errors of the levels, if the loads are levels, not
            means.

    Returns:
        The noise; None if that of any resource is unknown, because the snapshot was written
        before noise was estimated or because there were too few windows.
    """
    by_resource = rows_by_resource(rows)
    found = [by_resource.get(name) for name in resources]
    known = [row for row in found if row is not None]
    if not known or not all(row.is_known for row in known):
        return None
    error = mean_error if level_error is None else level_error
    if not all(bool(np.isfinite(values).all()) for values in (window_sd, mean_error, error)):
        return None
    windows = min(row.windows for row in known)
    ratio = np.array([1.0 if row is None else row.node_variance_ratio for row in found])
    period = np.array([1.0 if row is None else row.period_variance_ratio for row in found])
    change = np.array([0.0 if row is None else row.change_ratio for row in found])
    has_traffic = traffic is not None and bool(
        np.isfinite(traffic.window_sd).all() and np.isfinite(traffic.mean_error).all()
    )
    common = np.array([0.0 if row is None else row.common_sd_pct / 100.0 for row in found])
    return LoadNoise(
        mean_error=np.asarray(error, dtype=np.float64),
        period_sd=_period_sd(window_sd, mean_error, period / windows),
        node_variance_ratio=ratio,
        windows=windows,
        trend="; ".join(f"{row.resource}: {row.reason}" for row in known if row.status == TREND),
        traffic_error=traffic.mean_error if traffic is not None and has_traffic else None,
        traffic_period_sd=(
            traffic.window_sd / np.sqrt(windows) if traffic is not None and has_traffic else None
        ),
        change_variance=np.where(is_certain_change(change, mean_error), change, 0.0)
        * mean_error**2,
        common_period_sd=common * np.sqrt(2.0 / windows),
    )


def is_certain_change(ratio: FloatArray, mean_error: FloatArray) -> BoolArray:
    """[R]: the change ratio is above what estimates of loads that stand still reach.

    Args:
        ratio: [R], the change ratios.
        mean_error: [G, R]; key groups without an error do not count.
    """
    count = np.maximum(1, np.count_nonzero(mean_error, axis=0))
    least = np.maximum(UNCERTAIN_CHANGE, UNCERTAIN_CHANGE_OF_ONE / np.sqrt(count))
    return np.asarray(ratio > least)


def _period_sd(window_sd: FloatArray, mean_error: FloatArray, ratio: FloatArray) -> FloatArray:
    """[G, R]: standard deviation of the change to the next period, without the error of the mean.

    Each period has half of the change. The result is at least half of that, even if the error of
    the mean exceeds its share because of wild windows.
    """
    half = window_sd**2 * ratio
    return np.sqrt(np.maximum(2.0 * half - mean_error**2, 0.5 * half))


def resource_noise_of(row: SnapshotNoise) -> ResourceNoise:
    """A row of snapshots.noise as the estimate that it was written from."""
    return ResourceNoise(
        resource=row.resource,
        status=row.status,
        reason=row.reason,
        windows=row.windows,
        wild_windows=row.wild_windows,
        common_sd_pct=row.common_sd_pct,
        node_variance_ratio=row.node_variance_ratio,
        period_variance_ratio=row.period_variance_ratio,
        trend_pct=row.trend_pct,
        change_ratio=row.change_ratio or 0.0,
    )


def snapshot_noise_row(noise: ResourceNoise, job: str, snapshot_id: str) -> SnapshotNoise:
    """The row of snapshots.noise of an estimate."""
    return SnapshotNoise(
        job=job,
        snapshot_id=snapshot_id,
        resource=noise.resource,
        status=noise.status,
        reason=noise.reason,
        windows=noise.windows,
        wild_windows=noise.wild_windows,
        common_sd_pct=noise.common_sd_pct,
        node_variance_ratio=noise.node_variance_ratio,
        period_variance_ratio=noise.period_variance_ratio,
        trend_pct=noise.trend_pct,
        change_ratio=noise.change_ratio,
    )
