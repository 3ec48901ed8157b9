"""Figures of a run: time for the work, time to settle, the last part compared with the
capacities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.streaming.region import UNITS
from bench.weights.run import RegionRun
from bench.weights.settings import RegionSetting
from solvers.model.problem import FloatArray

SETTLED = 0.8
"""Share of the available capacity, over ``SETTLED_S`` seconds in a row."""
SETTLED_S = 3
LAST = 1 / 4
"""Share of a run that counts as its last part."""


@dataclass(frozen=True)
class Figures:
    """The figures; ``settled_s`` after the start and after the load was lifted, None if not
    settled."""

    method: str
    seconds: float
    is_done: bool
    settled_s: float | None
    settled_again_s: float | None
    final_share: float
    """Records per second at the end, divided by the capacity."""
    weights: FloatArray
    """Mean share of each worker at the end."""
    weights_off: float
    """Points of share that the wrong workers have, at the end."""


def figures(setting: RegionSetting, found: RegionRun) -> Figures:
    rates = found.done_a_second()
    lifted = len(rates) if found.lifted_s is None else int(np.ceil(found.lifted_s))
    loaded = float(setting.capacities(is_loaded=True).sum())
    free = float(setting.final_capacities.sum())
    is_lifted = found.lifted_s is not None
    weights = final_weights(found)
    true = setting.final_capacities / free
    last = rates[-max(1, int(len(rates) * LAST)) :]
    return Figures(
        found.method,
        found.seconds_for(setting.records),
        found.is_done,
        settled(rates[:lifted], loaded),
        settled(rates[lifted:], free) if is_lifted else None,
        float(np.mean(last)) / free if len(last) else 0.0,
        weights,
        50.0 * float(np.abs(weights - true).sum()),
    )


def settled(rates: FloatArray, capacity: float) -> float | None:
    """Seconds until the throughput is high enough for a number of seconds in a row."""
    for second in range(len(rates) - SETTLED_S + 1):
        if rates[second : second + SETTLED_S].mean() >= SETTLED * capacity:
            return float(second)
    return None


def final_weights(found: RegionRun) -> FloatArray:
    rounds = found.rounds[-max(1, int(len(found.rounds) * LAST)) :]
    return np.asarray(np.mean([r.weights for r in rounds], axis=0) / UNITS)


def by_method(setting: RegionSetting, runs: Iterable[RegionRun]) -> dict[str, Figures]:
    return {r.method: figures(setting, r) for r in runs if r.setting == setting.name}


def mixed(setting: RegionSetting, clusters: Sequence[int]) -> float:
    """Share of the connections, in %, that are in a cluster with one of another class."""
    classes: dict[int, set[float]] = {}
    for label, factor in zip(clusters, setting.factors, strict=True):
        classes.setdefault(label, set()).add(factor)
    return 100.0 * float(np.mean([len(classes[label]) > 1 for label in clusters]))
