"""Eager load balancing in three phases, for one statistics window: [AUTODASP17], ELB.

1. The number of instances is pi = ceil(2w / (u + v)). It gives the new average w / pi, and with it
   the overloaded and underloaded instances.
2. From each overloaded instance the largest substreams below theta = min(l_j - average,
   (u - v) / 2) go into a queue, one after another.
3. The substreams of the queue go to underloaded instances, largest first, first fit. An instance
   that becomes overloaded takes no more.

docs/papers.md says what the slides leave open: which instance is removed (the least loaded), what
"fit" means (not above the average), and where a substream goes that fits nowhere (the least
loaded).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import FloatArray, IntArray
from solvers.place.imbalance import as_assignment, as_series
from solvers.scale.from_load import parallelism


@dataclass(frozen=True, eq=False, slots=True)
class SubstreamPlacement:
    """The instance of each substream. Instances keep their numbers; new ones follow."""

    assignment: IntArray
    instances: int
    kept: tuple[int, ...]
    """Instances in use, without those that were removed."""


def elb(
    load: object,
    current: object,
    instances: int,
    u: float,
    v: float,
    *,
    max_instances: int | None = None,
) -> SubstreamPlacement:
    """Balance the load of one window, and scale to ceil(2w / (u + v)) instances.

    Args:
        load: [p], load of each substream.
        current: [p], instance of each substream.
        instances: number of instances.
        u: upper load of an instance.
        v: lower load of an instance.
        max_instances: most instances; no limit if None.
    """
    loads = as_series(load)
    if loads.shape[1] != 1:
        raise InvalidInput("ELB balances one window; use CLB for several")
    y = loads[:, 0]
    assignment = as_assignment(current, len(y), instances)
    wanted = max(1, parallelism(float(y.sum()), u, v))
    pi = min(wanted, max_instances or wanted)
    kept = _phase_1(y, assignment, instances, pi)
    average = float(y.sum()) / pi
    queue = _phase_2(y, assignment, kept, average, (u - v) / 2)
    _phase_3(y, assignment, kept, queue, average)
    return SubstreamPlacement(assignment, max(instances, max(kept) + 1), tuple(kept))


def _phase_1(y: FloatArray, assignment: IntArray, instances: int, pi: int) -> list[int]:
    """The instances after scaling: new ones at the end, or without the least loaded."""
    if pi >= instances:
        return list(range(pi))
    loads = np.bincount(assignment, weights=y, minlength=instances)
    heaviest = np.lexsort((np.arange(instances), -loads))[:pi]
    return sorted(heaviest.tolist())


def _phase_2(
    y: FloatArray, assignment: IntArray, kept: list[int], average: float, half_band: float
) -> list[int]:
    """Substreams to assign again: all of removed instances, the excess of overloaded ones."""
    stays = set(kept)
    queue = [k for k in range(len(y)) if int(assignment[k]) not in stays]
    for j in kept:
        members = sorted(np.flatnonzero(assignment == j).tolist(), key=lambda k: (-y[k], k))
        load = float(y[members].sum())
        for k in members:
            theta = min(load - average, half_band)
            # One pass is enough: theta only falls, so what was too large stays too large.
            if 0 < y[k] < theta:
                queue.append(k)
                load -= float(y[k])
    return queue


def _phase_3(
    y: FloatArray, assignment: IntArray, kept: list[int], queue: list[int], average: float
) -> None:
    waiting = set(queue)
    loads = dict.fromkeys(kept, 0.0)
    for k in range(len(y)):
        if k not in waiting:
            loads[int(assignment[k])] += float(y[k])
    underloaded = [j for j in kept if loads[j] < average]
    for k in sorted(queue, key=lambda k: (-y[k], k)):
        underloaded.sort(key=lambda j: (-loads[j], j))
        fits = (j for j in underloaded if loads[j] + y[k] <= average)
        target = next(fits, min(underloaded or kept, key=lambda j: (loads[j], j)))
        assignment[k] = target
        loads[target] += float(y[k])
        if loads[target] >= average and target in underloaded:
            underloaded.remove(target)
