"""The settings of [MW16-REGIONS, 6], as regions whose workers serve by timer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.streaming.region import UNITS
from solvers.model.problem import FloatArray, IntArray
from solvers.weights.minimax_allocation import minimax_allocation

FULL_S = 32.0
"""Seconds without load in which the workers would do the work of a run."""
LIFTED = 1 / 8
"""Share of the work after which the load is lifted (6.3, 6.4, 6.6). It is a share of the work and
not of the time: only then can round robin take ten times as long, as the paper prints."""
SMALL_S, LARGE_S = 0.010, 0.020
"""Service time of a record without load. It is longer with 32 workers and more, so that two cores
can run them."""
FAST_TO_SLOW = 65 / 35
"""Capacity of a fast host over that of a slow one, where the weights of 6.5 settled."""
MIXTURES = 100


@dataclass(frozen=True)
class RegionSetting:
    """A setting; ``factors``: how many times slower each worker is, permanently or until lifted."""

    name: str
    factors: tuple[float, ...]
    service_s: float
    is_lifted: bool
    section: str
    printed: str

    @property
    def workers(self) -> int:
        return len(self.factors)

    @property
    def records(self) -> int:
        return int(self.final_capacities.sum() * FULL_S)

    def capacities(self, is_loaded: bool) -> FloatArray:
        """Records a second of each worker."""
        factors = np.array(
            self.factors if is_loaded or not self.is_lifted else [1.0] * self.workers
        )
        return np.asarray(1.0 / (self.service_s * factors))

    @property
    def final_capacities(self) -> FloatArray:
        return self.capacities(is_loaded=False)


def best_weights(capacities: FloatArray) -> IntArray:
    """The largest throughput that whole units allow, for known capacities."""
    functions = np.arange(UNITS + 1, dtype=np.float64)[None, :] / capacities[:, None]
    n = len(capacities)
    none, all_units = np.zeros(n, dtype=np.int64), np.full(n, UNITS, dtype=np.int64)
    return minimax_allocation(functions, none, all_units, UNITS)


def throughput(capacities: FloatArray, weights: IntArray) -> float:
    """Records per second of a region whose throughput the worker slowest for its share limits."""
    used = weights > 0
    return float((capacities[used] * UNITS / weights[used]).min())


def static_best(setting: RegionSetting) -> IntArray:
    """The constant weights that complete the whole work first, by the model above.

    They are between the best weights under load and the best without: mixtures in steps of 1 %.
    """
    loaded, free = (setting.capacities(is_loaded) for is_loaded in (True, False))
    first, last = best_weights(loaded), best_weights(free)
    share = LIFTED if setting.is_lifted else 1.0
    candidates = [
        best_weights(np.maximum(first + (last - first) * (step / MIXTURES), 1e-9))
        for step in range(MIXTURES + 1)
    ]
    return min(
        candidates,
        key=lambda w: share / throughput(loaded, w) + (1 - share) / throughput(free, w),
    )


def settings() -> list[RegionSetting]:
    found = [
        RegionSetting("3 equal", (1.0,) * 3, SMALL_S, False, "6.2", "stays even"),
        RegionSetting("fast and slow host", (1.0, FAST_TO_SLOW), SMALL_S, False, "6.5", "65 / 35"),
    ]
    for slower, section in ((10.0, "6.3"), (100.0, "6.4")):
        for workers in (2, 4, 8, 16):
            name = f"{workers}, half {slower:.0f}x"
            factors = _halves(workers, slower)
            found.append(RegionSetting(name, factors, SMALL_S, True, section, "1.5-4 times RR"))
    for workers in (32, 64):
        name = f"{workers}, half 100x"
        factors = _halves(workers, 100.0)
        found.append(RegionSetting(name, factors, LARGE_S, True, "6.6", "close to 9 times RR"))
    classes = (100.0,) * 20 + (5.0,) * 20 + (1.0,) * 24
    found.append(
        RegionSetting("64, three classes", classes, LARGE_S, False, "6.6", "three classes")
    )
    return found


def _halves(workers: int, slower: float) -> tuple[float, ...]:
    return (slower,) * (workers // 2) + (1.0,) * (workers - workers // 2)
