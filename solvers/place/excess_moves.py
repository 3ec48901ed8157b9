"""Moves from full nodes to empty nodes until the load is level enough: few bytes, one resource.

These are the second and third phase of ELB ([AUTODASP17]) with another measure. The largest key
group moves first, but only one that fits both the excess of its node and the lack of the other.
"""

from __future__ import annotations

import numpy as np

from solvers.model.budget import Budget
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.rebalance.start import within_budget

STEPS_A_KEY_GROUP = 2


def move_excess(problem: Problem, within: float, budget: Budget) -> IntArray | None:
    """The assignment with every node within ``within`` percent of the mean, as far as moves help.

    Returns None for several resources, and for rules about single key groups or nodes.
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
    """The largest deviation from the mean, in percent."""
    return 100 * float(np.abs(off).max())


def _is_plain(problem: Problem) -> bool:
    is_free = problem.allowed is None and not problem.pinned_mask.any()
    return is_free and bool(problem.staying.all()) and bool(problem.load.any())


def _step(
    load: FloatArray, assignment: IntArray, excess: FloatArray, off: FloatArray
) -> tuple[int, int] | None:
    """The largest move that fits, from the worst node to the emptiest or from the fullest to it."""
    worst = int(np.argmax(np.abs(off)))
    giver = worst if off[worst] > 0 else int(np.argmax(off))
    taker = int(np.argmin(off)) if giver == worst else worst
    mine = np.flatnonzero(assignment == giver)
    # A larger key group would only exchange the excess and the lack.
    fits = mine[(load[mine] > 0) & (load[mine] <= min(excess[giver], -excess[taker]))]
    if len(fits):
        return int(fits[np.argmax(load[fits])]), taker
    smallest = mine[load[mine] > 0]
    if not len(smallest):
        return None
    k = int(smallest[np.argmin(load[smallest])])
    after = max(abs(excess[giver] - load[k]), abs(excess[taker] + load[k]))
    return (k, taker) if after < max(excess[giver], -excess[taker]) else None
