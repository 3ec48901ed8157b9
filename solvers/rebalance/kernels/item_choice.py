"""The choice of an item: the best one for a gap, one of about the right size, or a random one."""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels.arrays import NOWHERE, UNITS
from solvers.rebalance.kernels.compiled import compiled_without_allocation, inlined
from solvers.rebalance.kernels.deviation import energy_with
from solvers.rebalance.kernels.moves import cost_on_node, may_go
from solvers.rebalance.kernels.random_numbers import random_below

LONGEST_SCAN = 128
"""Most items of a node that one proposal tries, so that its work does not grow with the problem."""
SAMPLES = 8
"""Random items of which the best one leaves a node, if items are not sorted by size."""
NEAREST = 6
"""Items tried on either side of the size that fits best."""


@compiled_without_allocation
def best_item(gap, rule, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the best item for the gap and the energy of both nodes with it.

    Without an item: NOWHERE and infinity.
    """
    if not fixed.takes[gap.taker]:
        return NOWHERE, np.inf
    full = plan.n_visitors[gap.taker] >= plan.room[gap.taker]
    best, energy = best_visitor(gap, full, rule, random, fixed, plan)
    # An item that is at home needs one more move.
    if full or gap.left[0] < 1.0:
        return best, energy
    other, other_energy = best_at_home(gap, energy, rule, random, fixed, plan)
    if other == NOWHERE:
        return best, energy
    return other, other_energy


@inlined
def best_visitor(gap, full, rule, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the best visitor of the giver: it has moved already, so it needs no further move."""
    best, energy = NOWHERE, np.inf
    count, begin = plan.n_visitors[gap.giver], plan.begin[gap.giver]
    length = min(count, LONGEST_SCAN)
    at = 0
    if count > LONGEST_SCAN:
        at = random_below(random, count)
    for _ in range(length):
        item = plan.visitors[begin + at]
        at += 1
        if at == count:
            at = 0
        if item == gap.skip or (full and fixed.home[item] != gap.taker):
            continue
        if fixed.limited[item] and not may_go(item, gap.taker, fixed):
            continue
        fits = True
        for u in range(UNITS):
            if cost_on_node(item, gap.taker, u, fixed) - fixed.cost[item, u] > gap.left[u]:
                fits = False
        if fits:
            e = energy_with(item, gap, fixed, plan, rule.target, energy)
            if e < energy:
                best, energy = item, e
    return best, energy


@inlined
def best_at_home(gap, cutoff, rule, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the best item that is at home on the giver, if its energy is below the cutoff."""
    best, energy = NOWHERE, cutoff
    low, high = fixed.home_begin[gap.giver], fixed.home_begin[gap.giver + 1]
    if low == high:
        return best, energy
    if rule.by_size:
        a = first_of_size(wanted_size(gap, fixed), low, high, fixed)
        low, high = max(low, a - NEAREST), min(high, a + NEAREST)
        at, length = low, high - low
    else:
        length = min(high - low, LONGEST_SCAN)
        at = low
        if high - low > LONGEST_SCAN:
            at = low + random_below(random, high - low)
    for _ in range(length):
        item = at
        at += 1
        if at == high:
            at = low
        if plan.place[item] != gap.giver or item == gap.skip:
            continue
        e = energy_with(item, gap, fixed, plan, rule.target, energy)
        if e < energy and is_affordable(item, gap.left, fixed):
            if not fixed.limited[item] or may_go(item, gap.taker, fixed):
                best, energy = item, e
    return best, energy


@inlined
def is_affordable(item, left, fixed):  # type: ignore[no-untyped-def]
    """Return whether a move of the item is within the rest of the budget."""
    return not (
        fixed.cost[item, 0] > left[0]
        or fixed.cost[item, 1] > left[1]
        or fixed.cost[item, 2] > left[2]
    )


@inlined
def wanted_size(gap, fixed):  # type: ignore[no-untyped-def]
    """Return the best load for an item of the gap, with one resource."""
    x, y = fixed.inverse[gap.giver, 0], fixed.inverse[gap.taker, 0]
    if not x * x + y * y > 0.0:
        return 0.0
    wanted = (gap.give[0] * x - fixed.centre[gap.giver, 0]) * x - (
        gap.take[0] * y - fixed.centre[gap.taker, 0]
    ) * y
    return wanted / (x * x + y * y)


@inlined
def first_of_size(wanted, low, high, fixed):  # type: ignore[no-untyped-def]
    """Return the first item of [low, high) with at least this load; ``high`` if there is none."""
    a, b = low, high
    while a < b:
        middle = (a + b) // 2
        if fixed.load[middle, 0] < wanted:
            a = middle + 1
        else:
            b = middle
    return a


@compiled_without_allocation
def pick_item(node, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return a random item on the node, or NOWHERE."""
    at_home = fixed.home_begin[node + 1] - fixed.home_begin[node]
    if at_home + plan.n_visitors[node] == 0:
        return NOWHERE
    for _ in range(4):
        at = random_below(random, at_home + plan.n_visitors[node])
        if at >= at_home:
            return plan.visitors[plan.begin[node] + at - at_home]
        if plan.place[fixed.home_begin[node] + at] == node:
            return fixed.home_begin[node] + at
    return NOWHERE


@compiled_without_allocation
def fitting_item(node, values, by_size, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return an item whose departure brings a node with these sums near its fair load.

    NOWHERE if none was found.
    """
    if not by_size or fixed.inverse[node, 0] <= 0.0:
        return best_of_samples(node, values, random, fixed, plan)
    wanted = values[0] - fixed.centre[node, 0] / fixed.inverse[node, 0]
    if plan.n_visitors[node] > 0 and random_below(random, 2) == 0:
        return nearest_visitor(node, wanted, fixed, plan)
    low, high = fixed.home_begin[node], fixed.home_begin[node + 1]
    if low == high:
        return NOWHERE
    a = first_of_size(wanted, low, high, fixed)
    at = a + random_below(random, NEAREST) - NEAREST // 2
    at = min(max(at, low), high - 1)
    return at if plan.place[at] == node else NOWHERE


@compiled_without_allocation
def best_of_samples(node, values, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the best of a few random items: its departure leaves the smallest deviation."""
    best, least = NOWHERE, np.inf
    for _ in range(SAMPLES):
        item = pick_item(node, random, fixed, plan)
        if item == NOWHERE:
            return best
        off = 0.0
        for r in range(fixed.n_balanced):
            d = (values[r] - fixed.load[item, r]) * fixed.inverse[node, r] - fixed.centre[node, r]
            off += d * d
        if off < least:
            best, least = item, off
    return best


@inlined
def nearest_visitor(node, wanted, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the visitor whose load is nearest to the wanted one."""
    best, least = NOWHERE, np.inf
    for at in range(min(plan.n_visitors[node], LONGEST_SCAN)):
        item = plan.visitors[plan.begin[node] + at]
        off = abs(fixed.load[item, 0] - wanted)
        if off < least:
            best, least = item, off
    return best
