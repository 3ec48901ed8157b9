"""Measurements of a region's connections, from counters that only increase.

[MW16-REGIONS, 3.1, Figure 2].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ballast.streaming.region.weights import Units, rounded


@dataclass(frozen=True, eq=False)
class Reading:
    """All counters at one time; ``weight_s`` is the integral of the weights over time."""

    at: float
    sent: NDArray[np.int64]
    blocked_s: NDArray[np.float64]
    done: NDArray[np.int64]
    busy_s: NDArray[np.float64]
    weight_s: NDArray[np.float64]
    alive: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RegionMeasurement:
    """What happened between two readings, with one value for each connection."""

    connection_ids: tuple[str, ...]
    start: float
    end: float
    sent: NDArray[np.int64]
    blocked_s: NDArray[np.float64]
    done: NDArray[np.int64]
    """Records that came back from the worker."""
    busy_s: NDArray[np.float64]
    """Time in which the worker had at least one record."""
    weights: Units
    """Mean over the window, in whole units that add up."""
    alive: NDArray[np.bool_]

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def blocking(self) -> NDArray[np.float64]:
        """Seconds blocked per second; NaN if nothing was measured.

        Nothing is measured of a dead connection, or of one with a weight that was never used.
        """
        if self.seconds <= 0:
            return np.full(len(self.sent), np.nan)
        rate = self.blocked_s / self.seconds
        no_turn = (self.weights > 0) & (self.sent == 0) & (self.blocked_s == 0)
        return np.where(self.alive & ~no_turn, rate, np.nan)


def window_between(names: Sequence[str], before: Reading, after: Reading) -> RegionMeasurement:
    """The measurement between two readings; a worker that died between them counts as dead."""
    mean = after.weight_s - before.weight_s
    return RegionMeasurement(
        tuple(names),
        before.at,
        after.at,
        after.sent - before.sent,
        np.maximum(after.blocked_s - before.blocked_s, 0.0),
        after.done - before.done,
        np.maximum(after.busy_s - before.busy_s, 0.0),
        rounded(mean.tolist() if mean.any() else [1.0] * len(names)),
        after.alive,
    )
