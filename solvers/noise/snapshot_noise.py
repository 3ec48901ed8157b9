"""The noise of a problem's loads, from the rows and columns of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ballast.contracts.records import SnapshotNoise
from solvers.model.noise import LoadNoise
from solvers.model.problem import FloatArray
from solvers.noise.load_noise import TrafficNoise, load_noise
from solvers.noise.noise_estimate import ResourceNoise


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
    )
