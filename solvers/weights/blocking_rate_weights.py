"""Weights of the connections of an ordered region from their blocking rates: [MW16-REGIONS, 3-5].

``weights_from`` is pure: the same history gives the same weights, whether a local loop calls it
every second or the pipeline every few minutes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from ballast.contracts.regions import UNITS
from solvers.model.problem import BoolArray, FloatArray, IntArray
from solvers.weights.blocking_function import RawData, blocking_function
from solvers.weights.connection_clusters import cluster
from solvers.weights.minimax_allocation import minimax_allocation
from solvers.weights.weight_bounds import weight_bounds


@dataclass(frozen=True, eq=False)
class BlockingHistory:
    """Weights and blocking rates of each connection, oldest round first.

    ``blocking`` is the blocking rate in seconds blocked per second; NaN if nothing was measured.
    ``alive`` is False for connections whose worker has died.
    """

    connection_ids: tuple[str, ...]
    weights: IntArray  # [T, N] units
    blocking: FloatArray  # [T, N]
    alive: BoolArray | None = None
    units: int = UNITS

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.int64)
        blocking = np.array(self.blocking, dtype=np.float64)
        n = len(self.connection_ids)
        if n == 0 or len(set(self.connection_ids)) != n:
            raise InvalidInput("connection_ids is empty or names a connection twice")
        if weights.ndim != 2 or weights.shape != blocking.shape or weights.shape[1] != n:
            raise InvalidInput(
                f"weights {weights.shape} and blocking {blocking.shape} do not fit {n} connections",
                allowed="[rounds, connections] both",
            )
        if len(weights) == 0:
            raise InvalidInput("the history has no round", remedy="give at least the weights now")
        check_sums(weights, self.units)
        if bool((blocking < 0).any() or np.isinf(blocking).any()):
            raise InvalidInput("a blocking rate is < 0 or infinite", allowed=">= 0, or NaN")
        alive = np.ones(n, dtype=bool) if self.alive is None else np.array(self.alive, dtype=bool)
        if alive.shape != (n,) or not alive.any():
            raise InvalidInput("no connection is alive", remedy="start a worker")
        for name, value in (("weights", weights), ("blocking", blocking), ("alive", alive)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def alive_mask(self) -> BoolArray:
        return np.ones(len(self.connection_ids), dtype=bool) if self.alive is None else self.alive


@dataclass(frozen=True, slots=True)
class BlockingParams:
    """How the weights follow the measurements.

    A connection that does not block while another one does may only be drafting (4.2). Its zero is
    weak evidence and is smoothed with ``draft_smoothing`` instead of ``smoothing``. ``max_change``
    limits the change of a weight in a round (None: no limit). ``decay`` 0 is the paper's LB-static,
    0.1 its LB-adaptive. ``cut`` is the largest distance within a cluster; with log 2 two
    connections may differ by a factor of two.
    """

    smoothing: float = 0.5
    draft_smoothing: float = 0.05
    decay: float = 0.1
    delta: float = 1e-5
    min_units: int = 0
    max_change: int | None = None
    cluster_from: int = 32
    cut: float = math.log(2)

    def __post_init__(self) -> None:
        if not (0 < self.smoothing <= 1 and 0 < self.draft_smoothing <= 1):
            raise InvalidInput(
                f"smoothing {self.smoothing}, draft_smoothing {self.draft_smoothing}",
                allowed="above 0, at most 1",
            )
        if not 0 <= self.decay < 1:
            raise InvalidInput(f"decay is {self.decay}", allowed="0 or more, below 1")
        if not 0 < self.delta < 1 / UNITS:
            raise InvalidInput(f"delta is {self.delta}", allowed=f"between 0 and {1 / UNITS}")
        if self.min_units < 0 or (self.max_change is not None and self.max_change < 1):
            raise InvalidInput("min_units or max_change is too small", allowed=">= 0 and >= 1")
        if self.cluster_from < 2 or not self.cut > 0:
            raise InvalidInput("cluster_from or cut is too small", allowed=">= 2 and > 0")


@dataclass(frozen=True, eq=False, slots=True)
class RegionWeights:
    """New weights in units, the functions they come from, and the cluster of each connection."""

    units: IntArray  # [N], adds up to R
    functions: FloatArray  # [N, R + 1]
    clusters: IntArray  # [N]
    blocking: float
    """The largest expected blocking rate with these weights."""
    reason: str
    learned: tuple[RawData, ...]
    """The data of all rounds; pass it to the next call together with the rounds since."""


def weights_from(
    history: BlockingHistory,
    params: BlockingParams | None = None,
    learned: Sequence[RawData] | None = None,
) -> RegionWeights:
    """The weights for the next period.

    Pass either the whole history, or the data ``learned`` before and the rounds since. Both give
    the same weights; the second saves a local loop from replaying its whole history.
    """
    params = params or BlockingParams()
    raw = replay(history, params, learned)
    alive = history.alive_mask
    functions = np.array([blocking_function(r, history.units, params.delta) for r in raw])
    clusters = _clusters(functions, alive, params)
    if clusters.max() + 1 < len(clusters):
        functions = _shared(raw, clusters, history.units, params)
    known = np.array([bool(r.rate) for r in raw])
    lowest, highest = weight_bounds(
        history.weights[-1], alive, known, history.units, params.min_units, params.max_change
    )
    units = minimax_allocation(functions, lowest, highest, history.units)
    expected = functions[np.arange(len(units)), units]
    return RegionWeights(
        units,
        functions,
        clusters,
        float(expected.max()),
        _reason(history, known, units),
        tuple(raw),
    )


def replay(
    history: BlockingHistory, params: BlockingParams, learned: Sequence[RawData] | None = None
) -> list[RawData]:
    """The raw data after all rounds: each decays the rates of larger weights and adds its own."""
    if learned is not None and len(learned) != len(history.connection_ids):
        raise InvalidInput(
            f"learned has {len(learned)} connections, the history {len(history.connection_ids)}"
        )
    raw = [r.copy() for r in learned] if learned else [RawData() for _ in history.connection_ids]
    for weights, blocking in zip(history.weights, history.blocking, strict=True):
        someone_blocks = bool(np.nanmax(blocking, initial=0.0) > 0)
        for j, data in enumerate(raw):
            if not np.isfinite(blocking[j]):
                continue
            data.forget_above(int(weights[j]), params.decay)
            if weights[j] > 0:
                is_drafting = someone_blocks and blocking[j] == 0
                share = params.draft_smoothing if is_drafting else params.smoothing
                data.add(int(weights[j]), float(blocking[j]), share)
    return raw


def _clusters(functions: FloatArray, alive: BoolArray, params: BlockingParams) -> IntArray:
    own: IntArray = np.arange(len(functions), dtype=np.int64)
    if int(alive.sum()) < params.cluster_from:
        return own
    clusters = np.array(own)
    clusters[alive] = cluster(functions[alive], params.delta, params.cut)
    clusters[~alive] = clusters[alive].max() + 1 + np.arange(int((~alive).sum()))
    return clusters


def _shared(
    raw: list[RawData], clusters: IntArray, units: int, params: BlockingParams
) -> FloatArray:
    by_cluster = {
        c: blocking_function(
            RawData.pooled(raw[j] for j in np.flatnonzero(clusters == c)), units, params.delta
        )
        for c in np.unique(clusters).tolist()
    }
    return np.array([by_cluster[c] for c in clusters.tolist()])


def check_sums(weights: IntArray, units: int) -> None:
    sums = weights.sum(axis=1)
    wrong = np.flatnonzero((sums != units) | (weights < 0).any(axis=1))
    if len(wrong):
        row = int(wrong[0])
        raise InvalidInput(
            f"the weights of round {row} add up to {int(sums[row])}",
            value=weights[row].tolist(),
            allowed=f"whole units >= 0 that add up to {units}",
        )


def _reason(history: BlockingHistory, known: BoolArray, units: IntArray) -> str:
    names = history.connection_ids
    alive = history.alive_mask
    dead = [names[j] for j in np.flatnonzero(~alive)]
    silent = [names[j] for j in np.flatnonzero(alive & ~known)]
    parts = []
    if dead:
        parts.append(f"dead, so they get nothing: {', '.join(dead)}")
    if silent:
        parts.append(f"never measured, so they keep their weight: {', '.join(silent)}")
    moved = int(np.abs(units - history.weights[-1]).sum()) // 2
    parts.append(f"{moved} of {history.units} units move")
    return "; ".join(parts)
