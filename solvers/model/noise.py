"""Errors of the measured loads, and their variation from period to period."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ballast.contracts.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_NOT_NEGATIVE = (
    "mean_error", "period_sd", "traffic_error", "traffic_period_sd", "change_variance",
    "common_period_sd",
)  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class LoadNoise:
    """The noise of the mean loads of key groups, in the units of the loads.

    A load that is the same in every window has no noise. A problem without this record has loads
    of which nothing is known but their means.
    """

    mean_error: FloatArray  # [G, R], >= 0
    """Standard error of the mean load over the period that was measured."""
    period_sd: FloatArray  # [G, R], >= 0
    """Standard deviation of the mean load over a period around the true mean."""
    node_variance_ratio: FloatArray  # [R], > 0
    """Variance of a node's load over the sum of the variances of its key groups."""
    windows: int
    """Windows that the means and the noise are estimated from."""
    trend: str = ""
    """How loads moved during the period, in a sentence; empty if they did not."""
    traffic_error: FloatArray | None = None  # [E], >= 0
    """Standard error of the mean rate of each edge."""
    traffic_period_sd: FloatArray | None = None  # [E], >= 0
    change_variance: FloatArray | None = None  # [G, R], >= 0
    """Variance of the change of the true mean load from period to period, where loads are known to
    change; None counts as 0."""
    common_period_sd: FloatArray | None = None  # [R], >= 0
    """Relative standard deviation of the total load from this period to the next: what all key
    groups have in common."""

    def __post_init__(self) -> None:
        for name in _NOT_NEGATIVE:
            values = getattr(self, name)
            if values is not None and not bool(np.all(np.isfinite(values) & (values >= 0))):
                raise InvalidInput(f"noise.{name} has a value that is not a number >= 0")
        ratio = self.node_variance_ratio
        if not bool(np.all(np.isfinite(ratio) & (ratio > 0))):
            raise InvalidInput("noise.node_variance_ratio has a value that is not a number > 0")
        if self.mean_error.shape != self.period_sd.shape:
            raise InvalidInput("noise.mean_error and noise.period_sd need the same shape")

    @property
    def error_variance(self) -> FloatArray:
        """[G, R]: variance of the estimated means around the true means."""
        return np.asarray(self.mean_error**2 * self.node_variance_ratio)

    @property
    def variance(self) -> FloatArray:
        """[G, R]: variance of the means of the next period around the estimated means."""
        variance = (self.mean_error**2 + self.period_sd**2) * self.node_variance_ratio
        return np.asarray(variance)

    @property
    def true_change_variance(self) -> FloatArray:
        """[G, R]: variance of the change of the true means from period to period."""
        if self.change_variance is None:
            return np.zeros_like(self.mean_error)
        return np.asarray(self.change_variance * self.node_variance_ratio)

    def of_scaled_loads(self, factors: FloatArray) -> LoadNoise:
        """The noise if the load of each key group is multiplied by its factor."""
        by_row, change = factors.reshape(-1, 1), self.change_variance
        return replace(
            self,
            mean_error=self.mean_error * by_row,
            period_sd=self.period_sd * by_row,
            change_variance=None if change is None else change * by_row**2,
        )

    def of_key_groups(self, rows: IntArray) -> LoadNoise:
        """The noise of these key groups, in this order, without that of the traffic."""
        change = self.change_variance
        chosen = replace(
            self,
            mean_error=self.mean_error[rows],
            period_sd=self.period_sd[rows],
            change_variance=None if change is None else change[rows],
        )
        return chosen.without_traffic()

    def without_traffic(self) -> LoadNoise:
        """The noise of the loads alone, for a problem with other edges than were measured."""
        return replace(self, traffic_error=None, traffic_period_sd=None)
