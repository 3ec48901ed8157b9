"""Real Job 1 of [ICDE17, 5.2], on a generated stream that resembles the printed one.

Three operators of 100 key groups each: GeoHash of every edit, top articles of the minute, global
top articles of the minute. The edit history is not available, so the stream is drawn: articles by a
Zipf law whose popularity changes with bursts, a rate that rises and falls, and locations that are
evenly spread as in the paper. The three partitioning functions are independent hashes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model.problem import FloatArray, IntArray

OPERATORS = ("geohash", "topk_minute", "topk_global")
KEY_GROUPS_EACH = 100
ARTICLES = 20_000
ZIPF_EXPONENT = 0.7
RATE_PER_S = 400.0
MINUTES = 5
"""A statistics period (SPL) of five minutes, as in the paper, in windows of one minute."""
CPU_MS = {"geohash": 0.8, "topk_minute": 0.8, "topk_global": 1.6}
"""Milliseconds of each operator: an edit is hashed and counted; an article of the minute is merged
into the global list."""
BYTES_PER_ARTICLE = 40_000
BYTES_GEOHASH = 4_000_000
WANDER = 0.4
WANDER_KEEPS = 0.9
BURSTS = 8
BURST_FACTOR = 4.0
"""Variation of the stream. It was fitted, over about ten settings, so that Flux in one pass
fluctuates about as far as in the paper (up to 7 points). Flux's row is therefore a fit and not a
reproduction. What can be compared is which method is steadier on the same stream, and by how
much."""
MEAN_LOAD = 0.5
"""Share of a node that is busy on average; the capacity is derived from it once, at the start."""


@dataclass(frozen=True)
class JobPeriod:
    """The measurements of a statistics period."""

    load: FloatArray  # [G], in shares of a node
    records: IntArray  # [G]
    state_bytes: IntArray  # [G]
    edits: tuple[IntArray, ...]  # per minute: the article of each edit, in order of arrival


class RealJob1:
    """Draws one period after another; the same seed gives the same stream to every balancer."""

    def __init__(self, seed: int, nodes: int) -> None:
        self._rng = np.random.default_rng(seed)
        ranks = self._rng.permutation(ARTICLES) + 1
        self._popularity: FloatArray = np.asarray(ranks**-ZIPF_EXPONENT, dtype=np.float64)
        self._wander = WANDER * self._rng.standard_normal(ARTICLES)
        self._burst = np.ones(ARTICLES)
        self._hashes = self._rng.integers(0, KEY_GROUPS_EACH, (2, ARTICLES))
        self._period = 0
        seconds = 60.0 * MINUTES
        busy_ms = RATE_PER_S * seconds * sum(CPU_MS.values())
        self.node_ms = busy_ms / (nodes * MEAN_LOAD)

    def operators(self) -> tuple[str, ...]:
        return tuple(name for name in OPERATORS for _ in range(KEY_GROUPS_EACH))

    def next_period(self) -> JobPeriod:
        self._change()
        share = self._popularity * np.exp(self._wander) * self._burst
        share /= share.sum()
        edits = tuple(self._minute(share) for _ in range(MINUTES))
        return self._measured(edits)

    def _change(self) -> None:
        """Change the popularity of articles, start and end bursts, and advance the time of day."""
        self._period += 1
        noise = np.sqrt(1 - WANDER_KEEPS**2) * WANDER * self._rng.standard_normal(ARTICLES)
        self._wander = WANDER_KEEPS * self._wander + noise
        self._burst = 1 + (self._burst - 1) * 0.5
        # Bursts are of articles that have readers already.
        in_the_news = self._rng.choice(
            ARTICLES, size=BURSTS, p=self._popularity / self._popularity.sum()
        )
        self._burst[in_the_news] = BURST_FACTOR * self._rng.random(BURSTS)

    def _minute(self, share: FloatArray) -> IntArray:
        day = 1 + 0.2 * np.sin(2 * np.pi * self._period / 48)
        count = self._rng.poisson(60 * RATE_PER_S * day)
        return self._rng.choice(ARTICLES, size=count, p=share)

    def _measured(self, edits: tuple[IntArray, ...]) -> JobPeriod:
        everywhere = np.zeros(KEY_GROUPS_EACH, dtype=np.int64)
        by_article = np.zeros(KEY_GROUPS_EACH, dtype=np.int64)
        seen = np.zeros(KEY_GROUPS_EACH, dtype=np.int64)
        largest = np.zeros((2, KEY_GROUPS_EACH), dtype=np.int64)
        for minute in edits:
            everywhere += self._counted(self._rng.integers(0, KEY_GROUPS_EACH, len(minute)))
            by_article += self._counted(self._hashes[0, minute])
            articles = np.unique(minute)
            held = np.stack([self._counted(self._hashes[i, articles]) for i in (0, 1)])
            seen += held[1]
            largest = np.maximum(largest, held)
        records = np.concatenate((everywhere, by_article, seen))
        cost = np.repeat([CPU_MS[name] for name in OPERATORS], KEY_GROUPS_EACH)
        geohash = np.full(KEY_GROUPS_EACH, BYTES_GEOHASH, dtype=np.int64)
        state = np.concatenate((geohash, BYTES_PER_ARTICLE * largest.ravel()))
        return JobPeriod(records * cost / self.node_ms, records, state, edits)

    @staticmethod
    def _counted(groups: IntArray) -> IntArray:
        return np.bincount(groups, minlength=KEY_GROUPS_EACH)
