"""A fluid model of an ordered region: the worker slowest for its share limits all and blocks.

Drafting [MW16-REGIONS, 4.2]: while the splitter waits for one connection, the others' buffers
drain, so that in a period only one connection is measured as blocking.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.weights import UNITS, BlockingHistory, BlockingParams, weights_from


class FluidRegion:
    def __init__(self, capacity: Any, *, source: float = 1e9, noise: float = 0.02) -> None:
        self.capacity = np.array(capacity, dtype=float)
        self.source = min(source, 2 * self.capacity.sum())
        self.weights = even(len(self.capacity))
        self.rng = np.random.default_rng(7)
        self.noise = noise

    def throughput(self) -> float:
        share = self.weights / UNITS
        used = share > 0
        return float(min(self.source, (self.capacity[used] / share[used]).min()))

    def blocking(self) -> np.ndarray:
        share = np.maximum(self.weights / UNITS, 1e-12)
        rates = self.capacity / share
        rates = rates * (1 + self.noise * self.rng.standard_normal(len(rates)))
        blocked = np.zeros(len(rates))
        leader = int(np.argmin(rates))
        blocked[leader] = max(0.0, 1 - rates[leader] / self.source)
        return blocked


def even(n: int) -> np.ndarray:
    weights = np.full(n, UNITS // n, dtype=np.int64)
    weights[: UNITS - int(weights.sum())] += 1
    return weights


def follow(region: FluidRegion, rounds: int, params: BlockingParams, learned: Any = None) -> Any:
    """Throughputs of every round, with new weights after each, and the learned data."""
    names = tuple(f"c{j}" for j in range(len(region.capacity)))
    throughputs, result = [], None
    for _ in range(rounds):
        throughputs.append(region.throughput())
        history = BlockingHistory(names, region.weights[None], region.blocking()[None])
        result = weights_from(history, params, learned)
        learned = result.learned
        region.weights = np.array(result.units)
    return np.array(throughputs), result
