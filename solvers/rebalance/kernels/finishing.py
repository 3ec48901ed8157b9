"""The end of a search: needless moves are undone, and draining nodes are emptied."""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels.arrays import NOWHERE, UNITS
from solvers.rebalance.kernels.compiled import compiled_without_allocation
from solvers.rebalance.kernels.moves import may_go, put


@compiled_without_allocation
def undo_moves(ceiling, order, fixed, plan):  # type: ignore[no-untyped-def]
    """Undo moves, in this order, if no deviation gets above the ceiling. Returns how many."""
    undone = 0
    for at in range(len(order)):
        item = order[at]
        if fixed.home[item] < 0 or fixed.home[item] == plan.place[item]:
            continue
        if may_return(item, ceiling, fixed, plan):
            put(item, fixed.home[item], fixed, plan)
            undone += 1
    return undone


@compiled_without_allocation
def may_return(item, ceiling, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether the item may return: both deviations within the ceiling, and caps kept."""
    h, x = fixed.home[item], plan.place[item]
    for r in range(plan.sums.shape[1]):
        more = plan.sums[h, r] + fixed.load[item, r]
        less = plan.sums[x, r] - fixed.load[item, r]
        if r < fixed.n_balanced:
            if abs(more * fixed.inverse[h, r] - fixed.centre[h, r]) > ceiling:
                return False
            if abs(less * fixed.inverse[x, r] - fixed.centre[x, r]) > ceiling:
                return False
        elif more > fixed.limit[h, r]:
            return False
    return True


@compiled_without_allocation
def drain(ceiling, order, fixed, plan):  # type: ignore[no-untyped-def]
    """Move these items, each to the node where the largest deviation stays smallest.

    Only moves within the budget are made, and no node may get above the ceiling. Returns the
    number of moves.
    """
    drained = 0
    for at in range(len(order)):
        item = order[at]
        fits = True
        for u in range(UNITS):
            fits = fits and plan.used[u] + fixed.cost[item, u] <= fixed.allowance[u]
        if not fits:
            continue
        best, least = NOWHERE, np.inf
        for j in range(plan.sums.shape[0]):
            if plan.n_visitors[j] >= plan.room[j] or not may_go(item, j, fixed):
                continue
            worst = deviation_with(item, j, fixed, plan)
            if worst <= ceiling and worst < least:
                best, least = j, worst
        if best >= 0:
            put(item, best, fixed, plan)
            drained += 1
    return drained


@compiled_without_allocation
def deviation_with(item, node, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the largest deviation of the node with the item; infinite over a cap."""
    worst = -np.inf if fixed.n_balanced > 0 else 0.0
    for r in range(plan.sums.shape[1]):
        value = plan.sums[node, r] + fixed.load[item, r]
        if r < fixed.n_balanced:
            worst = max(worst, value * fixed.inverse[node, r] - fixed.centre[node, r])
        elif fixed.load[item, r] > 0.0 and value > fixed.limit[node, r]:
            worst = np.inf
    return worst
