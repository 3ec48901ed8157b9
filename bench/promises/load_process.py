"""Generated loads: Zipf, seasonal, drifting and bursty, and the means that the generator
implies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.simulator.pipeline import TOPICS
from solvers.model.problem import FloatArray, IntArray

GROUPS, NODES = 160, 8
ZIPF_EXPONENT = 0.8
"""The most popular topic then has about 40 % of a node."""
MEAN_BYTES, BYTES_SPREAD = 200_000, 1.0


@dataclass(frozen=True)
class LoadShape:
    """How the loads of key groups vary; the load of a window is the product of all of it.

    Attributes:
        name: as in the table.
        own_sd: relative standard deviation of a key group from window to window, by itself.
        count_sd: the same for a key group of mean load, because it is a count; it falls with the
            square root of the load.
        common_sd: relative standard deviation of what all key groups have in common.
        season_windows: windows of a season; 0 without a season.
        season_all: amplitude of the season of all key groups together.
        season_own: amplitude of a season that each key group has by itself.
        drift_sd: standard deviation of the step of a key group's level in a window; levels are
            drawn back to where they began with ``drift_keeps``.
        drift_keeps: share of a level's distance that is left after a window.
        burst_rate: bursts of a key group that begin in a window.
        burst_windows: mean length of a burst.
        burst_factor: the load of a key group in a burst, over its load without.
    """

    name: str
    own_sd: float = 0.12
    count_sd: float = 0.10
    common_sd: float = 0.15
    season_windows: int = 0
    season_all: float = 0.0
    season_own: float = 0.0
    drift_sd: float = 0.0
    drift_keeps: float = 1.0
    burst_rate: float = 0.0
    burst_windows: float = 2.0
    burst_factor: float = 3.0

    @property
    def is_stationary(self) -> bool:
        """Whether the mean load of every key group stays what it is."""
        return not self.season_own and not self.drift_sd


ZIPF = LoadShape("zipf")
SEASONAL = LoadShape("seasonal", season_windows=1200, season_all=0.5, season_own=0.3)
DRIFTING = LoadShape("drifting", drift_sd=0.012, drift_keeps=0.998)
BURSTY = LoadShape("bursty", own_sd=0.06, burst_rate=0.01)
SHAPES = {shape.name: shape for shape in (ZIPF, SEASONAL, DRIFTING, BURSTY)}


@dataclass(eq=False)
class LoadState:
    """The present levels, bursts and season of the loads: one row for each sample."""

    level: FloatArray  # [S, G], logarithm
    is_burst: np.ndarray  # [S, G]
    clock: int

    def copies(self, count: int) -> LoadState:
        """The same state, repeated for many samples."""
        return LoadState(
            np.repeat(self.level, count, axis=0), np.repeat(self.is_burst, count, axis=0),
            self.clock,
        )  # fmt: skip


class LoadProcess:
    """Draws windows one after another; the same seed gives the same windows."""

    def __init__(self, shape: LoadShape, seed: int) -> None:
        self.shape = shape
        self._rng = np.random.default_rng([seed, 15])
        rng = self._rng
        popularity = np.arange(1, TOPICS + 1) ** -ZIPF_EXPONENT
        group = rng.integers(0, GROUPS, TOPICS)
        seen = np.bincount(group, weights=popularity, minlength=GROUPS)
        self.base: FloatArray = seen / seen.mean()
        self.start: IntArray = rng.permutation(np.arange(GROUPS) % NODES)
        sizes = MEAN_BYTES * rng.lognormal(0.0, BYTES_SPREAD, GROUPS)
        self.state_bytes: IntArray = sizes.astype(np.int64)
        self._phase = rng.uniform(0, 2 * np.pi, GROUPS)
        self._shape_of_noise = 1.0 / (shape.own_sd**2 + shape.count_sd**2 / self.base)
        in_burst = shape.burst_rate * shape.burst_windows
        settled = 0.0
        if shape.drift_keeps < 1:
            settled = shape.drift_sd / np.sqrt(1 - shape.drift_keeps**2)
        self._state = LoadState(
            settled * rng.standard_normal((1, GROUPS)),
            rng.random((1, GROUPS)) < in_burst / (1 + in_burst),
            int(rng.integers(0, max(1, shape.season_windows))),
        )

    def windows(self, count: int) -> FloatArray:
        """[G, W]: the loads of the next windows."""
        return self._drawn(self._state, count, self._rng)[0]

    def state(self) -> LoadState:
        """The present state of the loads."""
        return self._state.copies(1)

    def period_means(
        self, state: LoadState, count: int, samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """[S, G]: mean loads over the windows after a state, drawn from the generating process.

        The samples start from the present levels, bursts and season, and use random numbers of
        their own.
        """
        many, total = state.copies(samples), np.zeros((samples, GROUPS))
        for _ in range(count):
            total += self._window(many, rng)
        return total / count

    def _drawn(self, state: LoadState, count: int, rng: np.random.Generator) -> FloatArray:
        """[S, G, W]: loads of the next windows; the state moves on."""
        return np.stack([self._window(state, rng) for _ in range(count)], axis=2)

    def _window(self, state: LoadState, rng: np.random.Generator) -> FloatArray:
        """[S, G]: loads of the next window."""
        shape, size = self.shape, state.level.shape
        state.clock += 1
        if shape.drift_sd:
            step = shape.drift_sd * rng.standard_normal(size)
            state.level = shape.drift_keeps * state.level + step
        if shape.burst_rate:
            draw = rng.random(size)
            goes_on = state.is_burst & (draw >= 1 / shape.burst_windows)
            state.is_burst = goes_on | (~state.is_burst & (draw < shape.burst_rate))
        mean = self.base * np.exp(state.level) * self._season(state.clock)
        mean = mean * np.where(state.is_burst, shape.burst_factor, 1.0)
        noise = rng.gamma(self._shape_of_noise, 1.0 / self._shape_of_noise, size)
        common = np.exp(shape.common_sd * rng.standard_normal((size[0], 1)))
        return np.asarray(mean * noise * common)

    def _season(self, clock: int) -> FloatArray:
        """[G]: factors of the season."""
        shape = self.shape
        if not shape.season_windows:
            return np.ones(GROUPS)
        angle = 2 * np.pi * clock / shape.season_windows
        return np.asarray(
            (1 + shape.season_all * np.sin(angle))
            * (1 + shape.season_own * np.sin(angle + self._phase))
        )
