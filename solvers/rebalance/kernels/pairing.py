"""A first plan for several resources: pairs of nodes with opposite deviations exchange items.

With several resources key groups cannot be sorted by size, and the repair of one node at a time is
too slow for thousands of nodes. So every node above the aim is matched with the node whose
deviation vector is most nearly the opposite of its own. The two exchange key groups, best exchange
first, until both are within the aim. A node that stays above it gets another partner in the next
round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.model.problem import FloatArray, IntArray
from solvers.rebalance.kernels.arrays import NOWHERE, UNITS, RandomState
from solvers.rebalance.kernels.compiled import compiled, compiled_without_allocation, inlined
from solvers.rebalance.kernels.deviation import energy_now, peak
from solvers.rebalance.kernels.moves import cost_on_node, put
from solvers.rebalance.kernels.random_numbers import random_below

MEMBERS = 256
"""Most items of a node that are tried; of more items, a random range."""
WINDOW = 10_000
"""Most nodes tried as partner of a node, so the work is at most nodes x WINDOW."""
TRADES = 24
"""Exchanges of one pair in one round."""
SWAP_GAIN = 1.3
"""A swap is two moves, so its gain must be this many times that of the best single move."""


class PairingRound(NamedTuple):
    """The limits of one call of the pairing."""

    most: int
    """Pairs at most."""
    above: float
    """The round ends when no node without a partner has a larger deviation."""
    aim: float
    """A pair exchanges key groups until both deviations are at most this."""


class TradeScratch(NamedTuple):
    """Random numbers and memory for one exchange at a time."""

    random: RandomState
    mine: IntArray  # [MEMBERS + 1]: items of the first node
    yours: IntArray  # [MEMBERS + 1]: items of the second node
    value_i: FloatArray  # [R]
    value_j: FloatArray  # [R]
    left: FloatArray  # [3]


class Traders(NamedTuple):
    """Two nodes that exchange items."""

    i: int
    j: int
    aim: float
    """The deviation that both should have at most."""
    before: float
    """Their energy as they are."""
    n_yours: int
    """How many items of the second node are looked at; the place after them stands for no item."""


class Trades(NamedTuple):
    """The best single move and the best swap so far, each with its gain."""

    single: float
    alone_first: int
    alone_second: int
    double: float
    first: int
    second: int


@compiled
def pair_off(task, todo, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Match nodes, worst first, and exchange items in each pair.

    Args:
        task: The limits of this call.
        todo: True for every node without a partner in this round; it is updated.
        random: State of the random numbers.
        fixed: The arrays that no move changes.
        plan: The current plan; it is changed.

    Returns:
        The number of pairs.
    """
    free = np.flatnonzero(todo)
    n_free = len(free)
    order = worst_first(free, fixed, plan)
    where = np.full(plan.sums.shape[0], -1, dtype=np.int64)
    for at in range(n_free):
        where[free[at]] = at
    scratch = new_scratch(random, plan.sums.shape[1])
    pairs = 0
    for k in range(len(order)):
        i = order[k]
        if not todo[i]:
            continue
        if pairs == task.most or peak(i, fixed, plan) <= task.above:
            break
        todo[i] = False
        n_free = take_out(where[i], free, n_free, where)
        if n_free == 0:
            break
        at = best_mirror(i, free[:n_free], random_below(random, n_free), fixed, plan)
        if at < 0:
            continue
        j = free[at]
        todo[j] = False
        n_free = take_out(at, free, n_free, where)
        pairs += 1
        settle_pair(i, j, task.aim, scratch, fixed, plan)
        if n_free == 0:
            break
    return pairs


@compiled
def new_scratch(random, n_resources):  # type: ignore[no-untyped-def]
    """Return memory for exchanges."""
    return TradeScratch(
        random,
        np.empty(MEMBERS + 1, dtype=np.int64),
        np.empty(MEMBERS + 1, dtype=np.int64),
        np.empty(n_resources),
        np.empty(n_resources),
        np.empty(UNITS),
    )


@compiled
def worst_first(nodes, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the nodes sorted by deviation, the largest first."""
    worst = np.empty(len(nodes))
    for at in range(len(nodes)):
        worst[at] = -peak(nodes[at], fixed, plan)
    return nodes[np.argsort(worst)]


@compiled_without_allocation
def take_out(at, free, n_free, where):  # type: ignore[no-untyped-def]
    """Remove the node at this position from the free nodes. Returns how many are left."""
    n_free -= 1
    free[at] = free[n_free]
    where[free[n_free]] = at
    return n_free


@compiled_without_allocation
def best_mirror(node, free, start, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the position in ``free`` of the node with the most opposite deviation, or -1."""
    found, least = -1, np.inf
    at = start
    for _ in range(min(len(free), WINDOW)):
        j = free[at]
        score = 0.0
        for r in range(fixed.n_balanced):
            x, y = fixed.inverse[node, r], fixed.inverse[j, r]
            both = (plan.sums[node, r] * x - fixed.centre[node, r]) * y + (
                plan.sums[j, r] * y - fixed.centre[j, r]
            ) * x
            if x + y > 0.0:
                both /= x + y
            score += both * both
            if score >= least:
                break
        if score < least and fixed.takes[j]:
            found, least = at, score
        at += 1
        if at == len(free):
            at = 0
    return found


@compiled_without_allocation
def settle_pair(i, j, aim, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Exchange items of two nodes until both are within the aim, or no exchange helps."""
    for _ in range(TRADES):
        if max(peak(i, fixed, plan), peak(j, fixed, plan)) <= aim:
            return
        if not trade(i, j, aim, scratch, fixed, plan):
            return


@compiled_without_allocation
def trade(i, j, aim, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Make the best exchange of two nodes. Returns False if none lowers their energy."""
    n_mine = members(i, scratch.random, scratch.mine, fixed, plan)
    n_yours = members(j, scratch.random, scratch.yours, fixed, plan)
    before = energy_now(i, fixed, plan, aim)
    before += energy_now(j, fixed, plan, aim)
    pair = Traders(i, j, aim, before, n_yours)
    best = Trades(0.0, NOWHERE, NOWHERE, 0.0, NOWHERE, NOWHERE)
    # The last entry of each list means no item.
    scratch.yours[n_yours] = NOWHERE
    for a in range(n_mine + 1):
        p = scratch.mine[a] if a < n_mine else NOWHERE
        if p >= 0 and not may_come(p, j, fixed, plan):
            continue
        sums_after_move(p, pair, scratch, fixed, plan)
        best = best_trades(p, pair, best, scratch, fixed, plan)
    first, second = best.first, best.second
    if best.single > 0.0 and best.double < SWAP_GAIN * best.single:
        first, second = best.alone_first, best.alone_second
    if first == NOWHERE and second == NOWHERE:
        return False
    if first >= 0:
        put(first, j, fixed, plan)
    if second >= 0:
        put(second, i, fixed, plan)
    return True


@compiled_without_allocation
def members(node, random, out, fixed, plan):  # type: ignore[no-untyped-def]
    """Write the items of the node that have no list of allowed nodes to ``out``. Returns how many."""
    found = 0
    for at in range(plan.n_visitors[node]):
        item = plan.visitors[plan.begin[node] + at]
        if found < MEMBERS and not fixed.limited[item]:
            out[found] = item
            found += 1
    low, high = fixed.home_begin[node], fixed.home_begin[node + 1]
    at = low
    if high - low > MEMBERS:
        at = low + random_below(random, high - low)
    for _ in range(high - low):
        if found == MEMBERS:
            break
        if plan.place[at] == node and not fixed.limited[at]:
            out[found] = at
            found += 1
        at += 1
        if at == high:
            at = low
    return found


@inlined
def may_come(item, node, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether the node receives items and is the item's home or has a free slot."""
    return fixed.takes[node] and (
        plan.n_visitors[node] < plan.room[node] or fixed.home[item] == node
    )


@inlined
def sums_after_move(p, pair, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Write the sums of both nodes and the rest of the budget after the move of p from i to j."""
    i, j = pair.i, pair.j
    for u in range(UNITS):
        scratch.left[u] = fixed.allowance[u] - plan.used[u]
        if p >= 0:
            scratch.left[u] -= cost_on_node(p, j, u, fixed) - cost_on_node(p, i, u, fixed)
    for r in range(plan.sums.shape[1]):
        scratch.value_i[r] = plan.sums[i, r] - (fixed.load[p, r] if p >= 0 else 0.0)
        scratch.value_j[r] = plan.sums[j, r] + (fixed.load[p, r] if p >= 0 else 0.0)


@inlined
def best_trades(p, pair, best, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the better of the given trades and those in which p moves from i to j."""
    for b in range(pair.n_yours + 1):
        q = scratch.yours[b]
        if p == NOWHERE and q == NOWHERE:
            continue
        is_single = p == NOWHERE or q == NOWHERE
        cutoff = pair.before - (best.single if is_single else best.double)
        total = energy_after(q, pair, cutoff, scratch, fixed)
        if total >= cutoff or not is_allowed(q, pair, scratch, fixed, plan):
            continue
        gain = pair.before - total
        if is_single:
            best = Trades(gain, p, q, best.double, best.first, best.second)
        else:
            best = Trades(best.single, best.alone_first, best.alone_second, gain, p, q)
    return best


@inlined
def energy_after(q, pair, cutoff, scratch, fixed):  # type: ignore[no-untyped-def]
    """Return the energy of both nodes after q moves from j to i; a partial sum above the cutoff."""
    i, j = pair.i, pair.j
    total = 0.0
    for r in range(fixed.n_balanced):
        w = fixed.load[q, r] if q >= 0 else 0.0
        d = abs((scratch.value_i[r] + w) * fixed.inverse[i, r] - fixed.centre[i, r]) - pair.aim
        if d > 0.0:
            total += d * d
        d = abs((scratch.value_j[r] - w) * fixed.inverse[j, r] - fixed.centre[j, r]) - pair.aim
        if d > 0.0:
            total += d * d
        if total >= cutoff:
            break
    return total


@inlined
def is_allowed(q, pair, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether q may move from j to i: a free slot, the budget and the caps."""
    i, j = pair.i, pair.j
    fits = q == NOWHERE or may_come(q, i, fixed, plan)
    for u in range(UNITS):
        spent = 0.0
        if q >= 0:
            spent = cost_on_node(q, i, u, fixed) - cost_on_node(q, j, u, fixed)
        fits = fits and spent <= scratch.left[u]
    for r in range(fixed.n_balanced, plan.sums.shape[1]):
        w = fixed.load[q, r] if q >= 0 else 0.0
        more, less = scratch.value_i[r] + w, scratch.value_j[r] - w
        fits = fits and (more <= fixed.limit[i, r] or more <= plan.sums[i, r])
        fits = fits and (less <= fixed.limit[j, r] or less <= plan.sums[j, r])
    return fits
