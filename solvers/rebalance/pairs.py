"""A first plan for several resources: nodes that mirror each other settle between themselves.

With several resources no order of key groups by size helps, and repairing the worst node at a time
is too slow for thousands of nodes. So every node above the aim is matched with the one whose
deviation, as a vector, best makes up for its own, and the two exchange key groups, best exchange
first, until both are within the aim. What a pair cannot settle goes into the next round, with other
partners (compiled).
"""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels import (
    NOWHERE,
    UNITS,
    compiled,
    energy_at,
    fee,
    peak,
    put,
    random_below,
)

MEMBERS = 256
"""Members of a node that are looked at; beyond this many, a random stretch of them."""
WINDOW = 10_000
"""Nodes looked at for a partner: matching grows no faster than nodes times this."""
TRADES = 24
"""Exchanges of one pair in one round."""
SWAP_GAIN = 1.3
"""A swap is two moves: it has to gain so many times what the best single move gains."""


@compiled
def best_mirror(node, free, n_free, start, sums, inverse, centre, n_balanced, takes):  # type: ignore[no-untyped-def]
    """Where in ``free`` the node is whose deviation best makes up for this one's, or -1."""
    found, least = -1, np.inf
    at = start
    for _ in range(min(n_free, WINDOW)):
        j = free[at]
        score = 0.0
        for r in range(n_balanced):
            x, y = inverse[node, r], inverse[j, r]
            both = (sums[node, r] * x - centre[node, r]) * y + (sums[j, r] * y - centre[j, r]) * x
            if x + y > 0.0:
                both /= x + y
            score += both * both
            if score >= least:
                break
        if score < least and takes[j]:
            found, least = at, score
        at += 1
        if at == n_free:
            at = 0
    return found


@compiled
def members(node, random, limited, home_begin, place, visitors, begin, count, out):  # type: ignore[no-untyped-def]
    """Write the node's items that may go anywhere into ``out``; how many."""
    found = 0
    for at in range(count[node]):
        item = visitors[begin[node] + at]
        if found < MEMBERS and not limited[item]:
            out[found] = item
            found += 1
    low, high = home_begin[node], home_begin[node + 1]
    at = low
    if high - low > MEMBERS:
        at = low + random_below(random, high - low)
    for _ in range(high - low):
        if found == MEMBERS:
            break
        if place[at] == node and not limited[at]:
            out[found] = at
            found += 1
        at += 1
        if at == high:
            at = low
    return found


@compiled
def trade(  # type: ignore[no-untyped-def]
    i, j, aim, random, mine, yours,
    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start, allowed_nodes,
    home, home_begin, cost, allowance,
    place, sums, visitors, begin, room, count, slot, used, moved, moved_slot, n_moved,
):  # fmt: skip
    """Make the best exchange of two nodes, if one lowers what they are above the aim."""
    n_resources = sums.shape[1]
    n_mine = members(i, random, limited, home_begin, place, visitors, begin, count, mine)
    n_yours = members(j, random, limited, home_begin, place, visitors, begin, count, yours)
    before = energy_at(i, sums[i], inverse, centre, limit, sums, n_balanced, aim)
    before += energy_at(j, sums[j], inverse, centre, limit, sums, n_balanced, aim)
    value_i, value_j = np.empty(n_resources), np.empty(n_resources)
    left = np.empty(UNITS)
    single, alone_first, alone_second = 0.0, NOWHERE, NOWHERE
    double, first, second = 0.0, NOWHERE, NOWHERE
    # The last place of either list stands for nothing.
    for a in range(n_mine + 1):
        p = mine[a] if a < n_mine else NOWHERE
        if p >= 0 and (not takes[j] or (count[j] >= room[j] and home[p] != j)):
            continue
        for u in range(UNITS):
            left[u] = allowance[u] - used[u]
            if p >= 0:
                left[u] -= fee(p, j, u, home, cost) - fee(p, i, u, home, cost)
        for r in range(n_resources):
            value_i[r] = sums[i, r] - (load[p, r] if p >= 0 else 0.0)
            value_j[r] = sums[j, r] + (load[p, r] if p >= 0 else 0.0)
        for b in range(n_yours + 1):
            q = yours[b] if b < n_yours else NOWHERE
            if p == NOWHERE and q == NOWHERE:
                continue
            is_single = p == NOWHERE or q == NOWHERE
            cutoff = before - (single if is_single else double)
            total = 0.0
            for r in range(n_balanced):
                w = load[q, r] if q >= 0 else 0.0
                d = abs((value_i[r] + w) * inverse[i, r] - centre[i, r]) - aim
                if d > 0.0:
                    total += d * d
                d = abs((value_j[r] - w) * inverse[j, r] - centre[j, r]) - aim
                if d > 0.0:
                    total += d * d
                if total >= cutoff:
                    break
            if total >= cutoff:
                continue
            fits = q == NOWHERE or (takes[i] and (count[i] < room[i] or home[q] == i))
            for u in range(UNITS):
                spent = 0.0
                if q >= 0:
                    spent = fee(q, i, u, home, cost) - fee(q, j, u, home, cost)
                fits = fits and spent <= left[u]
            for r in range(n_balanced, n_resources):
                w = load[q, r] if q >= 0 else 0.0
                more, less = value_i[r] + w, value_j[r] - w
                fits = fits and (more <= limit[i, r] or more <= sums[i, r])
                fits = fits and (less <= limit[j, r] or less <= sums[j, r])
            if not fits:
                continue
            if is_single:
                single, alone_first, alone_second = before - total, p, q
            else:
                double, first, second = before - total, p, q
    if single > 0.0 and double < SWAP_GAIN * single:
        first, second = alone_first, alone_second
    if first == NOWHERE and second == NOWHERE:
        return False
    if first >= 0:
        put(
            first, j, load, home, cost,
            place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
        )  # fmt: skip
    if second >= 0:
        put(
            second, i, load, home, cost,
            place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
        )  # fmt: skip
    return True


@compiled
def pair_off(  # type: ignore[no-untyped-def]
    most, above, aim, todo, random,
    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start, allowed_nodes,
    home, home_begin, cost, allowance,
    place, sums, visitors, begin, room, count, slot, used, moved, moved_slot, n_moved,
):  # fmt: skip
    """Match and settle up to ``most`` pairs, worst node first; how many were looked at.

    ``todo`` has a True for every node that has had no partner in this round; the round is over
    when no such node is above ``above``.
    """
    n_nodes = sums.shape[0]
    free = np.flatnonzero(todo)
    n_free = len(free)
    worst = np.empty(n_free)
    for at in range(n_free):
        worst[at] = -peak(free[at], sums, inverse, centre, n_balanced)
    order = free[np.argsort(worst)]
    where = np.full(n_nodes, -1, dtype=np.int64)
    for at in range(n_free):
        where[free[at]] = at
    mine, yours = np.empty(MEMBERS + 1, dtype=np.int64), np.empty(MEMBERS + 1, dtype=np.int64)
    pairs = 0
    for k in range(len(order)):
        i = order[k]
        if not todo[i]:
            continue
        if pairs == most or peak(i, sums, inverse, centre, n_balanced) <= above:
            break
        todo[i] = False
        n_free -= 1
        free[where[i]] = free[n_free]
        where[free[n_free]] = where[i]
        if n_free == 0:
            break
        at = best_mirror(
            i, free, n_free, random_below(random, n_free), sums, inverse, centre, n_balanced, takes
        )
        if at < 0:
            continue
        j = free[at]
        todo[j] = False
        n_free -= 1
        free[at] = free[n_free]
        where[free[n_free]] = at
        pairs += 1
        for _ in range(TRADES):
            if max(
                peak(i, sums, inverse, centre, n_balanced),
                peak(j, sums, inverse, centre, n_balanced),
            ) <= aim or not trade(
                i, j, aim, random, mine, yours,
                load, inverse, centre, limit, n_balanced, takes, limited, allowed_start,
                allowed_nodes, home, home_begin, cost, allowance,
                place, sums, visitors, begin, room, count, slot, used, moved, moved_slot, n_moved,
            ):  # fmt: skip
                break
        if n_free == 0:
            break
    return pairs
