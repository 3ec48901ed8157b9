"""Substreams with Poisson arrivals, by Zipf or Gaussian shares that change with each window.

[AUTODASP17] prints Poisson arrivals at 10,000/s, Gaussian and Zipf. It does not print the number of
substreams, the parameters of the laws, and how shares change. Here shares change by a random walk
of each substream, and by waves that some substreams have in common, because CLB uses such
correlation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model.problem import FloatArray, IntArray

ZIPF, GAUSSIAN = "Zipf", "Gaussian"
LAWS = (ZIPF, GAUSSIAN)
RATE_PER_S = 10_000.0
SUBSTREAMS = 400
ZIPF_EXPONENT = 0.7
"""The most popular substream then has half of the even share of one of ten instances."""
GAUSSIAN_SPREAD = 1 / 6
"""Standard deviation as a share of the range of substreams: six of them span the range."""
WINDOW_S = 5.0
WANDER, WANDER_KEEPS = 0.3, 0.95
WAVES, WAVE_HEIGHT = 3, 0.3
WAVE_WINDOWS = (12.0, 40.0)
"""Shortest and longest period of a wave, in windows."""
BYTES_PER_RECORD = 100
STATE_S = 60.0
"""State of a substream: words are counted by the minute, so it grows with the records of one
minute."""


@dataclass(frozen=True)
class SubstreamArrivals:
    """The records of one window in the order of arrival."""

    at_s: FloatArray
    substream: IntArray

    def counts(self, substreams: int) -> IntArray:
        return np.bincount(self.substream, minlength=substreams)


class Substreams:
    """Draws one window after another; a law and a seed give the same records to every method."""

    def __init__(self, law: str, seed: int, substreams: int = SUBSTREAMS) -> None:
        self._rng = np.random.default_rng([seed, LAWS.index(law)])
        self.substreams = substreams
        self.share: FloatArray = self._rng.permutation(shares_of(law, substreams))
        self.state_bytes: IntArray = np.maximum(
            1, np.rint(BYTES_PER_RECORD * STATE_S * RATE_PER_S * self.share)
        ).astype(np.int64)
        self._wander = WANDER * self._rng.standard_normal(substreams)
        self._wave = self._rng.integers(0, WAVES, substreams)
        self._period = self._rng.uniform(*WAVE_WINDOWS, WAVES)
        self._phase = self._rng.uniform(0, 2 * np.pi, WAVES)
        self._window = 0

    def next_window(self) -> SubstreamArrivals:
        """A Poisson number of records at uniform times, each of a substream by its share now."""
        share = self._shares_now()
        start = self._window * WINDOW_S
        self._window += 1
        count = int(self._rng.poisson(RATE_PER_S * WINDOW_S))
        at_s = start + np.sort(self._rng.uniform(0.0, WINDOW_S, count))
        return SubstreamArrivals(at_s, self._rng.choice(self.substreams, size=count, p=share))

    def _shares_now(self) -> FloatArray:
        fresh = np.sqrt(1 - WANDER_KEEPS**2) * WANDER
        self._wander = WANDER_KEEPS * self._wander + fresh * self._rng.standard_normal(
            self.substreams
        )
        angle = 2 * np.pi * self._window / self._period + self._phase
        wave = 1 + WAVE_HEIGHT * np.sin(angle)
        share = self.share * np.exp(self._wander) * wave[self._wave]
        return np.asarray(share / share.sum())


def shares_of(law: str, substreams: int) -> FloatArray:
    """Each substream's share of all records, in the order of the law."""
    if law == ZIPF:
        weight = np.arange(1, substreams + 1) ** -ZIPF_EXPONENT
    elif law == GAUSSIAN:
        x = (np.arange(substreams) + 0.5) / substreams - 0.5
        weight = np.exp(-0.5 * (x / GAUSSIAN_SPREAD) ** 2)
    else:
        raise ValueError(f"no such law: {law!r}; there are {', '.join(LAWS)}")
    return np.asarray(weight / weight.sum(), dtype=np.float64)
