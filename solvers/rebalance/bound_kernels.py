"""The inner loops of the bound, compiled by numba and kept in its cache (docs/adr/0014).

Loads of a node's key groups that may leave are sorted, largest first, end to end in node order.
"""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels import compiled

LONGEST_PAIRS = 20_000
"""Key groups up to which two arrivals are tested exactly; beyond, they are taken to be possible."""
IMPOSSIBLE = 1 << 40


@compiled
def first_at_least(values, begin, end, threshold):  # type: ignore[no-untyped-def]
    """In an ascending slice: the first position whose value is >= threshold."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < threshold:
            begin = middle + 1
        else:
            end = middle
    return begin


@compiled
def fewest(prefix, begin, end, amount):  # type: ignore[no-untyped-def]
    """How many of the largest, from ``begin`` on, add up to the amount."""
    if amount <= 0.0:
        return 0
    at = first_at_least(prefix, begin, end + 1, prefix[begin] + amount)
    return at - begin if at <= end else IMPOSSIBLE


@compiled
def one_leaves(loads, begin, end, least, most):  # type: ignore[no-untyped-def]
    for at in range(begin, end):
        if loads[at] < least:
            return False
        if loads[at] <= most:
            return True
    return False


@compiled
def two_leave(loads, begin, end, least, most):  # type: ignore[no-untyped-def]
    """Two different ones of a slice, largest first, whose sum is in [least, most]."""
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


@compiled
def one_arrives(pool, pool_home, node, least, most):  # type: ignore[no-untyped-def]
    """One of the pool, smallest first, that is not the node's own."""
    at = first_at_least(pool, 0, len(pool), least)
    while at < len(pool) and pool[at] <= most:
        if pool_home[at] != node:
            return True
        at += 1
    return False


@compiled
def two_arrive(pool, least, most):  # type: ignore[no-untyped-def]
    """Two of the pool; that they may be the node's own is taken in favour of "possible"."""
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


@compiled
def one_each(loads, begin, end, pool, pool_home, node, least, most):  # type: ignore[no-untyped-def]
    """One leaves and one arrives, and the node's load changes by something in [least, most]."""
    for at in range(begin, end):
        if one_arrives(pool, pool_home, node, loads[at] + least, loads[at] + most):
            return True
    return False


@compiled
def events_of_node(  # type: ignore[no-untyped-def]
    node, load, lowest, highest, loads, prefix, begin, end, pool, pool_home, pool_prefix
):
    """(departures, arrivals, events): the fewest that bring the load into [lowest, highest]."""
    if load > highest:
        leave = fewest(prefix, begin, end, load - highest)
        if leave > 2:
            return leave, 0, leave
        if leave == 1 and one_leaves(loads, begin, end, load - highest, load - lowest):
            return 1, 0, 1
        if two_leave(loads, begin, end, load - highest, load - lowest):
            return leave, 0, 2
        if leave == 1 and one_each(
            loads, begin, end, pool, pool_home, node, lowest - load, highest - load
        ):
            return 1, 0, 2
        return leave, 0, 3
    if load < lowest:
        come = fewest(pool_prefix, 0, len(pool), lowest - load)
        if come > 2:
            return 0, come, come
        if come == 1 and one_arrives(pool, pool_home, node, lowest - load, highest - load):
            return 0, 1, 1
        if two_arrive(pool, lowest - load, highest - load):
            return 0, come, 2
        if come == 1 and one_each(
            loads, begin, end, pool, pool_home, node, lowest - load, highest - load
        ):
            return 0, 1, 2
        return 0, come, 3
    return 0, 0, 0


@compiled
def count_events(  # type: ignore[no-untyped-def]
    sums, lowest, highest, loads, prefix, begin, end, pool, pool_home, pool_prefix,
    departures, arrivals, events,
):  # fmt: skip
    """Raise each node's counts to what this resource needs."""
    for i in range(len(sums)):
        leave, come, both = events_of_node(
            i, sums[i], lowest[i], highest[i], loads, prefix, begin[i], end[i],
            pool, pool_home, pool_prefix,
        )  # fmt: skip
        departures[i] = max(departures[i], leave)
        arrivals[i] = max(arrivals[i], come)
        events[i] = max(events[i], both)


@compiled
def largest_volume(moves, departures, pool, pool_home, pool_rank):  # type: ignore[no-untyped-def]
    """The most load that so many moves can carry when nodes have to lose so many key groups.

    ``pool`` is ascending; ``pool_rank`` is the place of each in its own node, largest first;
    ``pool_home`` is -1 for what sits on a node that has to lose nothing.
    """
    volume = 0.0
    needed = 0
    for i in range(len(departures)):
        needed += departures[i]
    free = moves - needed
    for at in range(len(pool) - 1, -1, -1):
        home = pool_home[at]
        if home >= 0 and pool_rank[at] < departures[home]:
            volume += pool[at]
        elif free > 0:
            free -= 1
            volume += pool[at]
    return volume


@compiled
def least_cost(surplus, deficit, load, price, home, before):  # type: ignore[no-untyped-def]
    """The least that it costs to carry each node's surplus away, and as much as others lack.

    Key groups may be cut into parts here, and come by price per load, cheapest first. ``before``
    is the load of the cheaper ones on the same node. Each node gives its cheapest first; what is
    lacking beyond the surpluses is taken wherever it is cheapest: a separable convex problem, so
    that this greedy choice is its optimum.
    """
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
