"""Deviations of nodes, and the energy that the search lowers: squared excess over a target."""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels.compiled import compiled_without_allocation, inlined


@inlined
def excess(value, target):  # type: ignore[no-untyped-def]
    """Return the energy of a deviation: the square of its excess over the target."""
    over = abs(value) - target
    return over * over if over > 0.0 else 0.0


@inlined
def peak(node, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the largest deviation of a node over the balanced resources."""
    worst = 0.0
    for r in range(fixed.n_balanced):
        d = abs(plan.sums[node, r] * fixed.inverse[node, r] - fixed.centre[node, r])
        if d > worst:
            worst = d
    return worst


@compiled_without_allocation
def worst_node(fixed, plan):  # type: ignore[no-untyped-def]
    """Return the largest deviation of all nodes, and its node."""
    worst, at = 0.0, 0
    for i in range(plan.sums.shape[0]):
        d = peak(i, fixed, plan)
        if d > worst:
            worst, at = d, i
    return worst, at


@inlined
def energy_at(node, values, fixed, plan, target):  # type: ignore[no-untyped-def]
    """Return the energy of a node with these sums.

    It is infinite if a sum exceeds a cap and is larger than now.
    """
    total = 0.0
    for r in range(values.shape[0]):
        if r < fixed.n_balanced:
            total += excess(values[r] * fixed.inverse[node, r] - fixed.centre[node, r], target)
        elif values[r] > fixed.limit[node, r] and values[r] > plan.sums[node, r]:
            return np.inf
    return total


@inlined
def energy_now(node, fixed, plan, target):  # type: ignore[no-untyped-def]
    """Return the energy of a node in the current plan."""
    return energy_at(node, plan.sums[node], fixed, plan, target)


@inlined
def energy_with(item, gap, fixed, plan, target, cutoff):  # type: ignore[no-untyped-def]
    """Return the energy of both nodes of the gap if the item moves from the giver to the taker.

    It is infinite over a cap, and as soon as it exceeds the cutoff: for most items one resource
    is enough.
    """
    giver, taker = gap.giver, gap.taker
    total = 0.0
    for r in range(gap.give.shape[0]):
        less, more = gap.give[r] - fixed.load[item, r], gap.take[r] + fixed.load[item, r]
        if r < fixed.n_balanced:
            total += excess(less * fixed.inverse[giver, r] - fixed.centre[giver, r], target)
            total += excess(more * fixed.inverse[taker, r] - fixed.centre[taker, r], target)
            if total >= cutoff:
                return np.inf
        elif (more > fixed.limit[taker, r] and more > plan.sums[taker, r]) or (
            less > fixed.limit[giver, r] and less > plan.sums[giver, r]
        ):
            return np.inf
    return total
