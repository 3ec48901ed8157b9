"""A first plan for one resource, built for a given load distance.

Items leave overloaded nodes, largest first, until the nodes are inside the band. The largest of
these items move to the nodes that lack most, in absolute load, so that large key groups are placed
on large nodes. The rest of the lacking load comes from the nodes with the most load above their
lower limit. The search bisects the distance and starts from the least one within the budget.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.model.problem import FloatArray, IntArray
from solvers.rebalance.kernels.arrays import UNITS
from solvers.rebalance.kernels.compiled import compiled, compiled_without_allocation
from solvers.rebalance.kernels.heap import pop, push, settle
from solvers.rebalance.kernels.moves import put


class Band(NamedTuple):
    """The lowest and highest load of each node: [N] each."""

    lowest: FloatArray
    highest: FloatArray


class Departures(NamedTuple):
    """The items that must leave, and the load that each node loses by them."""

    items: IntArray
    load: FloatArray  # [N]


@compiled
def construct(distance, fixed, plan):  # type: ignore[no-untyped-def]
    """Build the plan for one resource without caps or allowed nodes.

    Args:
        distance: The largest deviation that a node may have.
        fixed: The arrays that no move changes.
        plan: The plan to start from; it is changed.

    Returns:
        Whether every node is within the distance and the budget is kept.
    """
    band = band_of(distance, fixed)
    is_possible, departures = departures_of(band, fixed, plan)
    if not is_possible:
        return False
    lack = np.zeros(plan.sums.shape[0])
    rest = fill_needy_nodes(departures, band, lack, fixed, plan)
    if not place_rest(rest, band, lack, fixed, plan):
        return False
    if not fill_from_spare(band, lack, fixed, plan):
        return False
    used, allowance = plan.used, fixed.allowance
    return used[0] <= allowance[0] and used[1] <= allowance[1] and used[2] <= allowance[2]


@compiled
def band_of(distance, fixed):  # type: ignore[no-untyped-def]
    """Return the band of each node; 0 to 0 for nodes that do not count."""
    n_nodes = fixed.inverse.shape[0]
    lowest, highest = np.zeros(n_nodes), np.zeros(n_nodes)
    for i in range(n_nodes):
        if fixed.inverse[i, 0] <= 0.0:
            continue
        fair = fixed.centre[i, 0] / fixed.inverse[i, 0]
        width = distance / fixed.inverse[i, 0]
        lowest[i], highest[i] = fair - width, fair + width
    return Band(lowest, highest)


@compiled
def departures_of(band, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether every overloaded node can reach the band, and the items that leave."""
    n_nodes = plan.sums.shape[0]
    leaving = np.empty(fixed.load.shape[0], dtype=np.int64)
    n_leaving = 0
    gone = np.zeros(n_nodes)
    for i in range(n_nodes):
        if fixed.inverse[i, 0] <= 0.0:
            continue
        at = fixed.home_begin[i + 1] - 1
        while plan.sums[i, 0] - gone[i] > band.highest[i]:
            # The largest item that does not take the node below the band.
            while at >= fixed.home_begin[i] and (
                plan.place[at] != i
                or plan.sums[i, 0] - gone[i] - fixed.load[at, 0] < band.lowest[i]
            ):
                at -= 1
            if at < fixed.home_begin[i]:
                return False, Departures(leaving[:0], gone)
            leaving[n_leaving] = at
            gone[i] += fixed.load[at, 0]
            n_leaving += 1
            at -= 1
            if n_leaving > fixed.allowance[0] - plan.used[0]:
                return False, Departures(leaving[:0], gone)
    return True, Departures(leaving[:n_leaving], gone)


@compiled
def fill_needy_nodes(departures, band, lack, fixed, plan):  # type: ignore[no-untyped-def]
    """Move the departures, largest first, to the nodes that lack most; return the others.

    Writes to ``lack`` the load that each node needs to reach its lowest load.
    """
    n_nodes = plan.sums.shape[0]
    n_leaving = len(departures.items)
    order = np.argsort(-fixed.load[departures.items, 0])
    needy = np.empty(n_nodes, dtype=np.int64)
    n_needy = 0
    for i in range(n_nodes):
        lack[i] = band.lowest[i] - plan.sums[i, 0] + departures.load[i]
        if fixed.takes[i] and lack[i] > 0.0:
            n_needy = push(needy, lack, n_needy, i)
    rest = np.empty(n_leaving, dtype=np.int64)
    n_rest = 0
    for at in range(n_leaving):
        item = departures.items[order[at]]
        node = needy[0] if n_needy > 0 else -1
        if (
            node < 0
            or fixed.load[item, 0] > lack[node] + band.highest[node] - band.lowest[node]
            or plan.n_visitors[node] >= plan.room[node]
        ):
            rest[n_rest] = item
            n_rest += 1
            continue
        put(item, node, fixed, plan)
        lack[node] -= fixed.load[item, 0]
        if lack[node] > 0.0:
            settle(needy, lack, n_needy)
        else:
            n_needy = pop(needy, lack, n_needy)
    return rest[:n_rest]


@compiled
def place_rest(rest, band, lack, fixed, plan):  # type: ignore[no-untyped-def]
    """Move the other departures to the nodes with most room; return whether all are placed."""
    n_nodes = plan.sums.shape[0]
    headroom = np.zeros(n_nodes)
    roomy = np.empty(n_nodes, dtype=np.int64)
    n_roomy = 0
    for i in range(n_nodes):
        # ``lack`` contains the departures, so an overloaded node counts without them.
        headroom[i] = lack[i] + band.highest[i] - band.lowest[i]
        if fixed.takes[i]:
            n_roomy = push(roomy, headroom, n_roomy, i)
    for at in range(len(rest)):
        item = rest[at]
        node = roomy[0]
        if (
            fixed.load[item, 0] > headroom[node]
            or node == fixed.home[item]
            or plan.n_visitors[node] >= plan.room[node]
        ):
            return False
        put(item, node, fixed, plan)
        headroom[node] -= fixed.load[item, 0]
        settle(roomy, headroom, n_roomy)
    return True


@compiled
def fill_from_spare(band, lack, fixed, plan):  # type: ignore[no-untyped-def]
    """Move items from the nodes with most spare load to nodes below the band.

    Returns whether every node is in the band.
    """
    n_nodes = plan.sums.shape[0]
    spare = np.zeros(n_nodes)
    needy, givers = np.empty(n_nodes, dtype=np.int64), np.empty(n_nodes, dtype=np.int64)
    n_givers = 0
    n_needy = 0
    for i in range(n_nodes):
        spare[i] = plan.sums[i, 0] - band.lowest[i]
        lack[i] = -spare[i]
        if fixed.takes[i] and lack[i] > 0.0:
            n_needy = push(needy, lack, n_needy, i)
        elif fixed.home_begin[i + 1] > fixed.home_begin[i]:
            n_givers = push(givers, spare, n_givers, i)
    while n_needy > 0:
        if n_givers == 0:
            return False
        node, giver = needy[0], givers[0]
        most = min(spare[giver], lack[node] + band.highest[node] - band.lowest[node])
        item = largest_up_to(most, giver, fixed, plan)
        if item < 0 or fixed.load[item, 0] <= 0.0:
            n_givers = pop(givers, spare, n_givers)
            continue
        if plan.n_visitors[node] >= plan.room[node] or not is_within_budget(item, fixed, plan):
            return False
        put(item, node, fixed, plan)
        spare[giver] -= fixed.load[item, 0]
        settle(givers, spare, n_givers)
        lack[node] -= fixed.load[item, 0]
        if lack[node] > 0.0:
            settle(needy, lack, n_needy)
        else:
            n_needy = pop(needy, lack, n_needy)
    return True


@compiled_without_allocation
def largest_up_to(most, node, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the largest item up to ``most`` that is on the node as its home, or -1."""
    begin = fixed.home_begin[node]
    a, b = begin, fixed.home_begin[node + 1]
    while a < b:
        middle = (a + b) // 2
        if fixed.load[middle, 0] <= most:
            a = middle + 1
        else:
            b = middle
    at = a - 1
    while at >= begin and plan.place[at] != node:
        at -= 1
    return at if at >= begin else -1


@compiled_without_allocation
def is_within_budget(item, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether a move of this item is within the budget."""
    for u in range(UNITS):
        if plan.used[u] + fixed.cost[item, u] > fixed.allowance[u]:
            return False
    return True
