"""From full nodes to empty ones, no more than has to go: a plan of few bytes for one resource.

ELB's second and third phase ([AUTODASP17]) with another measure: largest first, but only what fits
both the excess of the one and the lack of the other, until every node is within the tolerance.
"""

from __future__ import annotations

import numpy as np

from solvers.model.budget import Budget
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.rebalance.start import within_budget

STEPS_A_KEY_GROUP = 2


def move_excess(problem: Problem, within: float, budget: Budget) -> IntArray | None:
    """The assignment when every node is within so many percent of the mean, or nothing more helps.

    For one resource and a problem without rules about single key groups or nodes; else None.
    """
    if problem.n_resources != 1 or not _is_plain(problem):
        return None
    load, room = problem.load[:, 0], problem.capacity[:, 0]
    mean = room * float(load.sum()) / float(room.sum())
    assignment = problem.current.copy()
    sums = np.bincount(assignment, weights=load, minlength=problem.n_nodes)
    for _ in range(STEPS_A_KEY_GROUP * problem.n_key_groups):
        off = (sums - mean) / mean
        step = _step(load, assignment, sums - mean, off) if _worst(off) > within else None
        if step is None:
            break
        k, node = step
        before = int(assignment[k])
        assignment[k] = node
        if not within_budget(problem, budget, assignment):
            assignment[k] = before
            break
        sums[before] -= load[k]
        sums[node] += load[k]
    return assignment


def _worst(off: FloatArray) -> float:
    """In percent."""
    return 100 * float(np.abs(off).max())


def _is_plain(problem: Problem) -> bool:
    is_free = problem.allowed is None and not problem.pinned_mask.any()
    return is_free and bool(problem.staying.all()) and bool(problem.load.any())


def _step(
    load: FloatArray, assignment: IntArray, excess: FloatArray, off: FloatArray
) -> tuple[int, int] | None:
    """The worst node gives to the emptiest or takes from the fullest, the most that fits."""
    worst = int(np.argmax(np.abs(off)))
    giver = worst if off[worst] > 0 else int(np.argmax(off))
    taker = int(np.argmin(off)) if giver == worst else worst
    mine = np.flatnonzero(assignment == giver)
    # What is larger than both the excess and the lack would only turn them around.
    fits = mine[(load[mine] > 0) & (load[mine] <= min(excess[giver], -excess[taker]))]
    if len(fits):
        return int(fits[np.argmax(load[fits])]), taker
    smallest = mine[load[mine] > 0]
    if not len(smallest):
        return None
    k = int(smallest[np.argmin(load[smallest])])
    after = max(abs(excess[giver] - load[k]), abs(excess[taker] + load[k]))
    return (k, taker) if after < max(excess[giver], -excess[taker]) else None
