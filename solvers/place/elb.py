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
from typing import Annotated

import numpy as np

from ballast.contracts.errors import InvalidInput
from ballast.contracts.methods import MethodLimit
from solvers.model.budget import Budget
from solvers.model.method import Parameter, RebalanceMethod, check_parameters
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.result import Result, infeasible_result
from solvers.model.stop import Stop
from solvers.place.imbalance import as_assignment, as_series
from solvers.place.instances import Instances
from solvers.rebalance.start import why_infeasible
from solvers.scale.from_load import parallelism

NAME = "elb"


@dataclass(frozen=True, slots=True)
class ElbParams:
    """Parameters of ELB."""

    band: Annotated[
        float,
        Parameter(
            "how far the bounds u and v of a node's load are from the mean load, as a share of it; "
            "a key group larger than that stays where it is",
            above=0,
            at_most=1,
        ),
    ] = 0.2

    def __post_init__(self) -> None:
        check_parameters(NAME, self)


def solve(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int,  # noqa: ARG001 - every method has the same signature
    params: ElbParams,
) -> Result:
    """Balance with phases 2 and 3 of ELB; the number of nodes is decided by ``scaling``.

    Arguments and result are described in ``RebalanceMethod``. ELB knows no budget, so its plan is
    repaired.
    """
    clock = stop.start()
    reason = why_infeasible(problem, budget)
    if reason is not None:
        return infeasible_result(problem, method=NAME, reason=reason, seconds=clock.elapsed())
    instances = Instances.of(problem, budget, NAME)
    count, load = len(instances.nodes), instances.load
    if not load.any():
        return instances.result(instances.current, budget, NAME, clock.elapsed())
    # Half an instance more than the mean: 2w / (u + v) then rounds up to the instances there are.
    middle = float(load.sum()) / (count - 0.5)
    u, v = (1 + params.band) * middle, (1 - params.band) * middle
    placed = elb(load, instances.current, count, u, v, max_instances=count)
    return instances.result(placed.assignment, budget, NAME, clock.elapsed())


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


METHOD = RebalanceMethod(
    name=NAME,
    summary=(
        "moves the largest key groups that fit from nodes above the mean to nodes below it, first "
        "fit"
    ),
    paper="AUTODASP17, ELB",
    params=ElbParams,
    cannot=(MethodLimit.BUDGET, MethodLimit.SEVERAL_RESOURCES, MethodLimit.UNEQUAL_NODES),
    solve=solve,
)
