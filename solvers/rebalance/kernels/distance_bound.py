"""Loops of the bound on load distance: the fewest key groups that nodes must lose and gain.

The loads of the key groups that may leave are in one array, by node, largest first in each node.
"""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels.compiled import compiled_without_allocation

LONGEST_PAIRS = 20_000
"""With more key groups than this, two arrivals count as possible without a test."""
IMPOSSIBLE = 1 << 40


@compiled_without_allocation
def first_at_least(values, begin, end, threshold):  # type: ignore[no-untyped-def]
    """Return the first position of an ascending slice whose value is >= the threshold."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < threshold:
            begin = middle + 1
        else:
            end = middle
    return begin


@compiled_without_allocation
def fewest(prefix, begin, end, amount):  # type: ignore[no-untyped-def]
    """Return how many of the largest, from ``begin`` on, have at least this sum."""
    if amount <= 0.0:
        return 0
    at = first_at_least(prefix, begin, end + 1, prefix[begin] + amount)
    return at - begin if at <= end else IMPOSSIBLE


@compiled_without_allocation
def one_leaves(loads, begin, end, least, most):  # type: ignore[no-untyped-def]
    """Return whether one load of a slice, largest first, is in [least, most]."""
    for at in range(begin, end):
        if loads[at] < least:
            return False
        if loads[at] <= most:
            return True
    return False


@compiled_without_allocation
def two_leave(loads, begin, end, least, most):  # type: ignore[no-untyped-def]
    """Return whether two loads of a slice, largest first, have a sum in [least, most]."""
    low, high = begin, end - 1
    while low < high:
        total = loads[low] + loads[high]
        if total > most:
            low += 1
        elif total < least:
            high -= 1
        else:
            return True
    return False


@compiled_without_allocation
def one_arrives(pool, pool_home, node, least, most):  # type: ignore[no-untyped-def]
    """Return whether the pool, smallest first, has a load of another node in [least, most]."""
    at = first_at_least(pool, 0, len(pool), least)
    while at < len(pool) and pool[at] <= most:
        if pool_home[at] != node:
            return True
        at += 1
    return False


@compiled_without_allocation
def two_arrive(pool, least, most):  # type: ignore[no-untyped-def]
    """Return whether two loads of the pool have a sum in [least, most].

    Loads of the node itself count too. That makes the answer "possible" too often, and the bound
    stays valid.
    """
    if len(pool) > LONGEST_PAIRS:
        return True
    low, high = 0, len(pool) - 1
    while low < high:
        total = pool[low] + pool[high]
        if total > most:
            high -= 1
        elif total < least:
            low += 1
        else:
            return True
    return False


@compiled_without_allocation
def one_each(node, column, least, most):  # type: ignore[no-untyped-def]
    """Return whether one departure and one arrival can change the load by [least, most]."""
    for at in range(column.begin[node], column.end[node]):
        leaves = column.loads[at]
        if one_arrives(column.pool, column.pool_home, node, leaves + least, leaves + most):
            return True
    return False


@compiled_without_allocation
def events_of_node(node, column, lowest, highest):  # type: ignore[no-untyped-def]
    """Return the fewest departures, arrivals and events that bring a node into its band."""
    load = column.sums[node]
    if load > highest:
        return events_of_overload(node, column, load - highest, load - lowest)
    if load < lowest:
        return events_of_lack(node, column, lowest - load, highest - load)
    return 0, 0, 0


@compiled_without_allocation
def events_of_overload(node, column, least, most):  # type: ignore[no-untyped-def]
    """Return the events of a node that must lose a load in [least, most]."""
    begin, end = column.begin[node], column.end[node]
    leave = fewest(column.prefix, begin, end, least)
    if leave > 2:
        return leave, 0, leave
    if leave == 1 and one_leaves(column.loads, begin, end, least, most):
        return 1, 0, 1
    if two_leave(column.loads, begin, end, least, most):
        return leave, 0, 2
    if leave == 1 and one_each(node, column, -most, -least):
        return 1, 0, 2
    return leave, 0, 3


@compiled_without_allocation
def events_of_lack(node, column, least, most):  # type: ignore[no-untyped-def]
    """Return the events of a node that must gain a load in [least, most]."""
    come = fewest(column.pool_prefix, 0, len(column.pool), least)
    if come > 2:
        return 0, come, come
    if come == 1 and one_arrives(column.pool, column.pool_home, node, least, most):
        return 0, 1, 1
    if two_arrive(column.pool, least, most):
        return 0, come, 2
    if come == 1 and one_each(node, column, least, most):
        return 0, 1, 2
    return 0, come, 3


@compiled_without_allocation
def count_events(column, lowest, highest, counts):  # type: ignore[no-untyped-def]
    """Raise the counts of each node to the events that this resource needs."""
    for i in range(len(column.sums)):
        leave, come, both = events_of_node(i, column, lowest[i], highest[i])
        counts.departures[i] = max(counts.departures[i], leave)
        counts.arrivals[i] = max(counts.arrivals[i], come)
        counts.events[i] = max(counts.events[i], both)


@compiled_without_allocation
def largest_volume(moves, departures, column):  # type: ignore[no-untyped-def]
    """Return the most load of ``moves`` moves if each node loses its ``departures``."""
    volume = 0.0
    needed = 0
    for i in range(len(departures)):
        needed += departures[i]
    free = moves - needed
    for at in range(len(column.pool) - 1, -1, -1):
        home = column.pool_home[at]
        if home >= 0 and column.pool_rank[at] < departures[home]:
            volume += column.pool[at]
        elif free > 0:
            free -= 1
            volume += column.pool[at]
    return volume


@compiled_without_allocation
def least_cost(surplus, deficit, prices):  # type: ignore[no-untyped-def]
    """Return the least cost of moving each node's surplus, and in total at least the deficit.

    Key groups may be cut into parts here. Each node's cheapest move first. Load that is needed
    beyond the surpluses is taken where it is cheapest. This is a separable convex problem, so the
    greedy choice is optimal.
    """
    load, price, home, before = prices.load, prices.price, prices.home, prices.before
    total = 0.0
    carried = 0.0
    for at in range(len(load)):
        if home[at] >= 0 and load[at] > 0.0:
            part = min(load[at], surplus[home[at]] - before[at])
            if part > 0.0:
                total += part / load[at] * price[at]
                carried += part
    lacking = deficit - carried
    for at in range(len(load)):
        if lacking <= 0.0:
            return total
        if load[at] > 0.0:
            part = load[at]
            if home[at] >= 0:
                part = min(part, before[at] + load[at] - surplus[home[at]])
            if part > 0.0:
                part = min(part, lacking)
                total += part / load[at] * price[at]
                lacking -= part
    return total if lacking <= 0.0 else np.inf
