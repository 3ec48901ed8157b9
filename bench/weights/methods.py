"""The methods: fixed weights, re-routing, an oracle, the paper's loop, Ballast's loop, plans
alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ballast.streaming.region import RegionMeasurement, even_weights
from bench.weights.settings import RegionSetting, best_weights, static_best
from solvers.weights import (
    BlockingHistory,
    BlockingParams,
    ServiceHistory,
    ServiceParams,
    weights_from,
    weights_from_service,
)

ROUND_ROBIN = "round robin"
REROUTING = "re-routing"
STATIC = "static best"
ORACLE = "oracle"
PAPER = "the paper's loop"
OURS = "our loop"
PLANS = "plans alone"
FIXED = (ROUND_ROBIN, REROUTING, STATIC)
"""Methods that never change their weights."""
METHODS = (ROUND_ROBIN, REROUTING, STATIC, ORACLE, PAPER, OURS, PLANS)

MEMORY_ROUNDS = 60
PLAN_S = 10.0
"""Seconds between plans. The pipeline takes minutes, so time to settle is given in plans as
well."""
PLAN_WINDOW_S = 2.0
"""Seconds of a window of the rows that a plan is made from."""


class WeightMethod(Protocol):
    """A method; ``first``: weights at the start; ``after``: those of the next second, or None."""

    first: list[int]
    clusters: list[int]

    def after(self, window: RegionMeasurement) -> Sequence[int] | None: ...


class Fixed:
    """Weights that stay."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.first = [int(w) for w in weights]
        self.clusters: list[int] = []

    def after(self, window: RegionMeasurement) -> Sequence[int] | None:  # noqa: ARG002
        return None


class BlockingLoop:
    """LB-adaptive of the paper: blocking rates, clusters from 32 connections on, 10 % decay."""

    def __init__(self, workers: int) -> None:
        self.first = even_weights(workers)
        self.clusters: list[int] = []
        self._learned = None

    def after(self, window: RegionMeasurement) -> Sequence[int]:
        history = BlockingHistory(
            window.connection_ids, window.weights[None], window.blocking[None], window.alive
        )
        found = weights_from(history, BlockingParams(), self._learned)
        self._learned = found.learned
        self.clusters = found.clusters.tolist()
        return list(found.units.tolist())


class ServiceLoop:
    """Ballast's loop: true rates of the workers, every ``every``-th round."""

    def __init__(self, workers: int, every: int = 1) -> None:
        self.first = even_weights(workers)
        self.clusters: list[int] = []
        self._every = every
        self._rounds = 0
        self._done: deque[np.ndarray] = deque(maxlen=MEMORY_ROUNDS)
        self._busy: deque[np.ndarray] = deque(maxlen=MEMORY_ROUNDS)

    def after(self, window: RegionMeasurement) -> Sequence[int] | None:
        self._done.append(window.done)
        self._busy.append(window.busy_s)
        self._rounds += 1
        if self._rounds % self._every:
            return None
        history = ServiceHistory(
            window.connection_ids,
            window.weights,
            np.array(self._done),
            np.array(self._busy),
            window.alive,
        )
        params = ServiceParams(in_force_rounds=self._every)
        return list(weights_from_service(history, params).units.tolist())


def method_of(name: str, setting: RegionSetting) -> WeightMethod:
    n = setting.workers
    if name == PAPER:
        return BlockingLoop(n)
    if name == OURS:
        return ServiceLoop(n)
    if name == PLANS:
        return ServiceLoop(n, every=round(PLAN_S / PLAN_WINDOW_S))
    if name == STATIC:
        return Fixed(static_best(setting).tolist())
    if name == ORACLE:
        return Fixed(best_weights(setting.capacities(is_loaded=True)).tolist())
    return Fixed(even_weights(n))


def control_s(name: str) -> float:
    return PLAN_WINDOW_S if name == PLANS else 1.0
