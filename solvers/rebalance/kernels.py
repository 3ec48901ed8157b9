"""The inner loops of the search, compiled by numba and kept in its cache (docs/adr/0014).

All of them work on the same flat arrays, gathered in ``layout.Layout``: an *item* is a key group
that may move, a *node* is one that is alive or draining. Loads are normalised, so that a node's
deviation is ``sums * inverse - centre`` in units of the mean; columns from ``n_balanced`` on are
caps. An item whose home is ``NOWHERE`` has to move anyway: its cost is nothing here, because the
layout has taken it off the limits already.

Items are numbered by home node and, within it, by load: the items that a node had at the start are
``range(home_begin[i], home_begin[i + 1])`` for ever, and those of them with ``place == i`` are still
there. Only visitors are kept in lists. So a move costs O(1), and the best item of a given size is
found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

NOWHERE = -1
LONGEST_SCAN = 128
"""Members of a node looked at for one proposal: its work does not grow with the key groups."""
UNITS = 3
"""Units of the budget: moves, bytes, seconds of pause."""
MANY_NODES = 500
"""Beyond this many nodes the first good partner is taken: others wait for their repair."""
AIM = 0.3
"""With several resources: the share of its peak that a repaired node is to come down to."""
COARSE = 8
"""Kinds of proposals that change loads by much: what coarse loads and byte budgets need."""
PAIRED = 12
"""With those that put one item in the stead of another between the same two nodes."""
ALL_KINDS = 18
"""With rings of three nodes. Where the budget is spent, only these two still change loads finely."""
SAMPLES = 8
"""Items of which one is taken to leave a node, where no size says which."""
NEAREST = 6
"""Items looked at on either side of the size that would fit best."""


def compiled(function: Callable[..., Any]) -> Any:
    """``numba.njit`` with the cache, and without the interpreter's lock."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write a cache to: every process compiles for itself
        return numba.njit(**options)(function)


@compiled
def random_below(state, bound):  # type: ignore[no-untyped-def]
    """xorshift64*: a whole number in [0, bound)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    mixed = (x * np.uint64(2685821657736338717)) >> np.uint64(33)
    return np.int64(mixed % np.uint64(bound))


@compiled
def random_unit(state):  # type: ignore[no-untyped-def]
    return random_below(state, 2147483647) / 2147483647.0


@compiled
def excess(value, target):  # type: ignore[no-untyped-def]
    """What a deviation costs: nothing within the target, then its square."""
    over = abs(value) - target
    return over * over if over > 0.0 else 0.0


@compiled
def may_go(item, node, takes, limited, allowed_start, allowed_nodes):  # type: ignore[no-untyped-def]
    if not takes[node]:
        return False
    if not limited[item]:
        return True
    for at in range(allowed_start[item], allowed_start[item + 1]):
        if allowed_nodes[at] == node:
            return True
    return False


@compiled
def fee(item, node, unit, home, cost):  # type: ignore[no-untyped-def]
    """What it costs in this unit that the item is on this node."""
    return 0.0 if node == home[item] else cost[item, unit]


@compiled
def put(  # type: ignore[no-untyped-def]
    item, node, load, home, cost,
    place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
):  # fmt: skip
    """Move an item; all bookkeeping in O(1)."""
    old = place[item]
    for r in range(sums.shape[1]):
        sums[old, r] -= load[item, r]
        sums[node, r] += load[item, r]
    for u in range(UNITS):
        used[u] += fee(item, node, u, home, cost) - fee(item, old, u, home, cost)
    place[item] = node
    if old != home[item]:
        count[old] -= 1
        last = visitors[begin[old] + count[old]]
        visitors[begin[old] + slot[item]] = last
        slot[last] = slot[item]
    if node != home[item]:
        visitors[begin[node] + count[node]] = item
        slot[item] = count[node]
        count[node] += 1
        if old == home[item]:
            moved[n_moved[0]] = item
            moved_slot[item] = n_moved[0]
            n_moved[0] += 1
    else:
        n_moved[0] -= 1
        other = moved[n_moved[0]]
        moved[moved_slot[item]] = other
        moved_slot[other] = moved_slot[item]
        moved_slot[item] = -1


@compiled
def worst_node(sums, inverse, centre, n_balanced):  # type: ignore[no-untyped-def]
    """(largest deviation, its node)."""
    worst, at = 0.0, 0
    for i in range(sums.shape[0]):
        d = peak(i, sums, inverse, centre, n_balanced)
        if d > worst:
            worst, at = d, i
    return worst, at


@compiled
def peak(node, sums, inverse, centre, n_balanced):  # type: ignore[no-untyped-def]
    worst = 0.0
    for r in range(n_balanced):
        d = abs(sums[node, r] * inverse[node, r] - centre[node, r])
        if d > worst:
            worst = d
    return worst


@compiled
def energy_at(node, values, inverse, centre, limit, sums, n_balanced, target):  # type: ignore[no-untyped-def]
    """What the node costs with these sums; infinite over a cap, unless it is no worse than now."""
    total = 0.0
    for r in range(values.shape[0]):
        if r < n_balanced:
            total += excess(values[r] * inverse[node, r] - centre[node, r], target)
        elif values[r] > limit[node, r] and values[r] > sums[node, r]:
            return np.inf
    return total


@compiled
def energy_with(  # type: ignore[no-untyped-def]
    item, giver, taker, give, take, load, inverse, centre, limit, sums, n_balanced, target, cutoff
):
    """What both nodes cost when the item goes from one to the other, on top of give and take.

    Infinite over a cap, and as soon as it is above the cutoff: most items fail by one resource.
    """
    total = 0.0
    for r in range(give.shape[0]):
        less, more = give[r] - load[item, r], take[r] + load[item, r]
        if r < n_balanced:
            total += excess(less * inverse[giver, r] - centre[giver, r], target)
            total += excess(more * inverse[taker, r] - centre[taker, r], target)
            if total >= cutoff:
                return np.inf
        elif (more > limit[taker, r] and more > sums[taker, r]) or (
            less > limit[giver, r] and less > sums[giver, r]
        ):
            return np.inf
    return total


@compiled
def best_item(  # type: ignore[no-untyped-def]
    giver, taker, give, take, left, skip, by_size, target, random,
    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start, allowed_nodes,
    home, home_begin, cost,
    place, sums, visitors, begin, room, count,
):  # fmt: skip
    """(item, energy of both nodes): the best one to go from giver to taker.

    ``give`` and ``take`` are the sums of both nodes without that item's move, ``left`` is what of
    the budget is left for it, ``skip`` an item that may not go. ``by_size``: one resource and a
    budget in moves alone, so that only items near the best size need a look.
    """
    best, energy = NOWHERE, np.inf
    if not takes[taker]:
        return best, energy
    full = count[taker] >= room[taker]
    # Visitors: a move within the moves already made, or home.
    length = min(count[giver], LONGEST_SCAN)
    at = 0
    if count[giver] > LONGEST_SCAN:
        at = random_below(random, count[giver])
    for _ in range(length):
        item = visitors[begin[giver] + at]
        at += 1
        if at == count[giver]:
            at = 0
        if item == skip or (full and home[item] != taker):
            continue
        if limited[item] and not may_go(item, taker, takes, limited, allowed_start, allowed_nodes):
            continue
        fits = True
        for u in range(UNITS):
            if fee(item, taker, u, home, cost) - cost[item, u] > left[u]:
                fits = False
        if fits:
            e = energy_with(
                item, giver, taker, give, take, load, inverse, centre, limit, sums, n_balanced,
                target, energy,
            )  # fmt: skip
            if e < energy:
                best, energy = item, e
    # What has been here from the start: one more move.
    low, high = home_begin[giver], home_begin[giver + 1]
    if full or low == high or left[0] < 1.0:
        return best, energy
    if by_size:
        x, y = inverse[giver, 0], inverse[taker, 0]
        if x * x + y * y > 0.0:
            wanted = (give[0] * x - centre[giver, 0]) * x - (take[0] * y - centre[taker, 0]) * y
            wanted /= x * x + y * y
        else:
            wanted = 0.0
        a, b = low, high
        while a < b:
            middle = (a + b) // 2
            if load[middle, 0] < wanted:
                a = middle + 1
            else:
                b = middle
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
        if place[item] != giver or item == skip:
            continue
        e = energy_with(
            item, giver, taker, give, take, load, inverse, centre, limit, sums, n_balanced,
            target, energy,
        )  # fmt: skip
        if e >= energy:
            continue
        if cost[item, 0] > left[0] or cost[item, 1] > left[1] or cost[item, 2] > left[2]:
            continue
        if limited[item] and not may_go(item, taker, takes, limited, allowed_start, allowed_nodes):
            continue
        best, energy = item, e
    return best, energy


@compiled
def pick_item(node, random, home_begin, place, visitors, begin, count):  # type: ignore[no-untyped-def]
    """Some item on the node, or NOWHERE."""
    at_home = home_begin[node + 1] - home_begin[node]
    if at_home + count[node] == 0:
        return NOWHERE
    for _ in range(4):
        at = random_below(random, at_home + count[node])
        if at >= at_home:
            return visitors[begin[node] + at - at_home]
        if place[home_begin[node] + at] == node:
            return home_begin[node] + at
    return NOWHERE


@compiled
def fitting_item(  # type: ignore[no-untyped-def]
    node, values, by_size, random, load, inverse, centre, n_balanced, home_begin,
    place, visitors, begin, count,
):  # fmt: skip
    """An item whose leaving brings a node with these sums about to where it should be."""
    best, least = NOWHERE, np.inf
    if not by_size or inverse[node, 0] <= 0.0:
        for _ in range(SAMPLES):
            item = pick_item(node, random, home_begin, place, visitors, begin, count)
            if item == NOWHERE:
                return best
            off = 0.0
            for r in range(n_balanced):
                d = (values[r] - load[item, r]) * inverse[node, r] - centre[node, r]
                off += d * d
            if off < least:
                best, least = item, off
        return best
    wanted = values[0] - centre[node, 0] / inverse[node, 0]
    if count[node] > 0 and random_below(random, 2) == 0:
        for at in range(min(count[node], LONGEST_SCAN)):
            item = visitors[begin[node] + at]
            off = abs(load[item, 0] - wanted)
            if off < least:
                best, least = item, off
        return best
    low, high = home_begin[node], home_begin[node + 1]
    if low == high:
        return best
    a, b = low, high
    while a < b:
        middle = (a + b) // 2
        if load[middle, 0] < wanted:
            a = middle + 1
        else:
            b = middle
    at = a + random_below(random, NEAREST) - NEAREST // 2
    at = min(max(at, low), high - 1)
    return at if place[at] == node else NOWHERE


@compiled
def anneal(  # type: ignore[no-untyped-def]
    proposals, kinds, target, hot, cold, by_size, random,
    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start, allowed_nodes,
    home, home_begin, cost, allowance,
    place, sums, visitors, begin, room, count, slot, used, moved, moved_slot, n_moved,
    best_place, best,
):  # fmt: skip
    """Metropolis over relocations, swaps, replacements and rings; stops when the target is met.

    ``best`` is [largest deviation]; ``best_place`` the places that gave it. Returns the number of
    proposals made.
    """
    n_nodes, n_resources = sums.shape
    if load.shape[0] == 0 or n_nodes < 2:
        return proposals
    left = np.empty(UNITS)
    value_i, value_j = np.empty(n_resources), np.empty(n_resources)
    value_h, value_x = np.empty(n_resources), np.empty(n_resources)
    energy = 0.0
    for i in range(n_nodes):
        energy += energy_at(i, sums[i], inverse, centre, limit, sums, n_balanced, target)
    shrink = (cold / hot) ** (1.0 / max(1, proposals))
    temperature = hot
    for step in range(proposals):
        temperature *= shrink
        # A node worth repairing: the worst of a few.
        i = random_below(random, n_nodes)
        worst = peak(i, sums, inverse, centre, n_balanced)
        for _ in range((1 << random_below(random, 5)) - 1):
            other = random_below(random, n_nodes)
            p = peak(other, sums, inverse, centre, n_balanced)
            if p > worst:
                worst, i = p, other
        kind = random_below(random, kinds)
        first, second, third = NOWHERE, NOWHERE, NOWHERE
        first_to, second_to, third_to = 0, 0, 0
        delta = np.inf
        for u in range(UNITS):
            left[u] = allowance[u] - used[u]
        if kind < 5:
            # Relocate, or swap, between i and some j.
            j = random_below(random, n_nodes)
            if kind < 2 and n_moved[0] > 0:
                first = moved[random_below(random, n_moved[0])]
                if place[first] == i:
                    j = i if kind == 0 else j
                else:
                    j = i
                i = place[first]
                if i == j and home[first] >= 0:
                    j = home[first]
            else:
                if kind == 4:
                    i, j = j, i
                first = pick_item(i, random, home_begin, place, visitors, begin, count)
            if first == NOWHERE or i == j or not takes[j]:
                continue
            if not may_go(first, j, takes, limited, allowed_start, allowed_nodes):
                continue
            before = energy_at(i, sums[i], inverse, centre, limit, sums, n_balanced, target)
            before += energy_at(j, sums[j], inverse, centre, limit, sums, n_balanced, target)
            first_to, second_to = j, i
            fits = j == home[first] or count[j] < room[j]
            for u in range(UNITS):
                left[u] -= fee(first, j, u, home, cost) - fee(first, i, u, home, cost)
                fits = fits and left[u] >= 0.0
            for r in range(n_resources):
                value_i[r] = sums[i, r] - load[first, r]
                value_j[r] = sums[j, r] + load[first, r]
            if fits:
                delta = energy_at(i, value_i, inverse, centre, limit, sums, n_balanced, target)
                delta += energy_at(j, value_j, inverse, centre, limit, sums, n_balanced, target)
                delta -= before
            other, e = best_item(
                j, i, value_j, value_i, left, first, by_size, target, random,
                load, inverse, centre, limit, n_balanced, takes, limited, allowed_start,
                allowed_nodes, home, home_begin, cost, place, sums, visitors, begin, room, count,
            )  # fmt: skip
            if e - before < delta:
                delta, second = e - before, other
        elif kind >= PAIRED:
            # Three nodes in a ring: each of them gives about as much as it gets.
            if n_moved[0] == 0:
                continue
            if kind % 2 == 0 and count[i] > 0:
                first = visitors[begin[i] + random_below(random, count[i])]
            else:
                first = moved[random_below(random, n_moved[0])]
            h, x = home[first], place[first]
            if h < 0 or random_below(random, 2) == 0:
                h = random_below(random, n_nodes)
            j = i if i != h and i != x else random_below(random, n_nodes)
            if h == x or j == h or j == x or count[j] >= room[j] or not (takes[x] and takes[j]):
                continue
            if h != home[first] and (
                count[h] >= room[h]
                or not may_go(first, h, takes, limited, allowed_start, allowed_nodes)
            ):
                continue
            for r in range(n_resources):
                value_x[r] = sums[x, r] - load[first, r]
                value_h[r] = sums[h, r] + load[first, r]
            second = fitting_item(
                h, value_h, by_size, random, load, inverse, centre, n_balanced, home_begin,
                place, visitors, begin, count,
            )  # fmt: skip
            if second == NOWHERE or not may_go(
                second, j, takes, limited, allowed_start, allowed_nodes
            ):
                continue
            for u in range(UNITS):
                left[u] -= fee(first, h, u, home, cost) - cost[first, u]
                left[u] -= fee(second, j, u, home, cost) - fee(second, h, u, home, cost)
            for r in range(n_resources):
                value_h[r] -= load[second, r]
                value_j[r] = sums[j, r] + load[second, r]
            before = energy_at(h, sums[h], inverse, centre, limit, sums, n_balanced, target)
            before += energy_at(x, sums[x], inverse, centre, limit, sums, n_balanced, target)
            before += energy_at(j, sums[j], inverse, centre, limit, sums, n_balanced, target)
            still = energy_at(h, value_h, inverse, centre, limit, sums, n_balanced, target)
            first_to, second_to, third_to = h, j, x
            third, e = best_item(
                j, x, value_j, value_x, left, second, by_size, target, random,
                load, inverse, centre, limit, n_balanced, takes, limited, allowed_start,
                allowed_nodes, home, home_begin, cost, place, sums, visitors, begin, room, count,
            )  # fmt: skip
            if third == NOWHERE:
                continue
            delta = e + still - before
        else:
            # Replace: one item goes home, or elsewhere, and another one leaves in its stead.
            if n_moved[0] == 0:
                continue
            if kind > COARSE and count[i] > 0:
                first = visitors[begin[i] + random_below(random, count[i])]
            else:
                first = moved[random_below(random, n_moved[0])]
            h, x = home[first], place[first]
            if h < 0 or random_below(random, 8) == 0:
                h = random_below(random, n_nodes)
            if h == x or not may_go(first, h, takes, limited, allowed_start, allowed_nodes):
                if h != home[first]:
                    continue
            if h != home[first] and count[h] >= room[h]:
                continue
            giver, taker = h, i
            if kind == 6:
                giver, taker = i, x
            elif kind >= COARSE:
                giver, taker = h, x
            elif kind == 7:
                giver, taker = i, random_below(random, n_nodes)
                if random_below(random, 2) == 0:
                    giver, taker = taker, giver
            if giver == taker or h == x:
                continue
            for u in range(UNITS):
                left[u] -= fee(first, h, u, home, cost) - cost[first, u]
            before = energy_at(h, sums[h], inverse, centre, limit, sums, n_balanced, target)
            before += energy_at(x, sums[x], inverse, centre, limit, sums, n_balanced, target)
            for r in range(n_resources):
                value_h[r] = sums[h, r] + load[first, r]
                value_x[r] = sums[x, r] - load[first, r]
                value_i[r] = sums[giver, r]
                value_j[r] = sums[taker, r]
            still = 0.0
            if giver == h or taker == h:
                for r in range(n_resources):
                    if giver == h:
                        value_i[r] = value_h[r]
                    else:
                        value_j[r] = value_h[r]
            else:
                still += energy_at(h, value_h, inverse, centre, limit, sums, n_balanced, target)
            if giver == x or taker == x:
                for r in range(n_resources):
                    if giver == x:
                        value_i[r] = value_x[r]
                    else:
                        value_j[r] = value_x[r]
            else:
                still += energy_at(x, value_x, inverse, centre, limit, sums, n_balanced, target)
            if giver != h and giver != x:
                before += energy_at(
                    giver, sums[giver], inverse, centre, limit, sums, n_balanced, target
                )
            if taker != h and taker != x:
                before += energy_at(
                    taker, sums[taker], inverse, centre, limit, sums, n_balanced, target
                )
            first_to, second_to = h, taker
            second, e = best_item(
                giver, taker, value_i, value_j, left, first, by_size, target, random,
                load, inverse, centre, limit, n_balanced, takes, limited, allowed_start,
                allowed_nodes, home, home_begin, cost, place, sums, visitors, begin, room, count,
            )  # fmt: skip
            if second == NOWHERE:
                continue
            delta = e + still - before
        if not (delta <= 0.0 or random_unit(random) < np.exp(-delta / temperature)):
            continue
        put(
            first, first_to, load, home, cost,
            place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
        )  # fmt: skip
        if second >= 0:
            put(
                second, second_to, load, home, cost,
                place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
            )  # fmt: skip
        if third >= 0:
            put(
                third, third_to, load, home, cost,
                place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
            )  # fmt: skip
        energy += delta
        # No node is then over what is best so far. The running energy drifts, so look at them.
        if delta < 0.0 and energy < (best[0] - target) ** 2:
            now, _ = worst_node(sums, inverse, centre, n_balanced)
            if now < best[0] * (1.0 - 1e-3) or now <= target:
                best[0] = now
                best_place[:] = place
                if now <= target:
                    return step + 1
    now, _ = worst_node(sums, inverse, centre, n_balanced)
    if now < best[0]:
        best[0] = now
        best_place[:] = place
    return proposals


@compiled
def closest_mirrors(node, partners, sums, inverse, centre, n_balanced, takes, chosen, scores):  # type: ignore[no-untyped-def]
    """Fill ``chosen`` with the nodes whose deviation best makes up for this one's; how many."""
    found = 0
    for j in range(sums.shape[0]):
        if j == node or not (takes[j] or takes[node]):
            continue
        score = 0.0
        for r in range(n_balanced):
            x, y = inverse[node, r], inverse[j, r]
            both = 0.0
            if x > 0.0:
                both += sums[node, r] - centre[node, r] / x
            if y > 0.0:
                both += sums[j, r] - centre[j, r] / y
            if x > 0.0 and y > 0.0:
                both /= 1.0 / x + 1.0 / y
            score += both * both
        if found == partners and score >= scores[found - 1]:
            continue
        at = found if found < partners else partners - 1
        found = min(partners, found + 1)
        while at > 0 and scores[at - 1] > score:
            scores[at] = scores[at - 1]
            chosen[at] = chosen[at - 1]
            at -= 1
        scores[at] = score
        chosen[at] = j
    return found


@compiled
def polish(  # type: ignore[no-untyped-def]
    repairs, floor, partners, by_size, random,
    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start, allowed_nodes,
    home, home_begin, cost, allowance,
    place, sums, visitors, begin, room, count, slot, used, moved, moved_slot, n_moved,
    stuck,
):  # fmt: skip
    """Repair the worst nodes, worst first, each by the best exchange with nodes that mirror it.

    One pass over the worst ``repairs`` nodes above ``floor``; ends early at a node that cannot be
    improved, as then the largest deviation cannot either. Returns how many were repaired.
    ``stuck`` marks nodes that found no partner since they last changed.
    """
    n_nodes, n_resources = sums.shape
    left = np.empty(UNITS)
    spare = np.empty(UNITS)
    value_i, value_j = np.empty(n_resources), np.empty(n_resources)
    chosen = np.empty(partners, dtype=np.int64)
    scores = np.empty(partners)
    peaks = np.empty(n_nodes)
    for i in range(n_nodes):
        peaks[i] = -peak(i, sums, inverse, centre, n_balanced)
    worst_first = np.argsort(peaks)
    repaired = 0
    for place_in_order in range(min(repairs, n_nodes)):
        i = worst_first[place_in_order]
        worst = peak(i, sums, inverse, centre, n_balanced)
        if worst <= floor or worst < -0.5 * peaks[i]:
            continue  # it has been the partner of a worse one
        if stuck[i]:
            return repaired
        best_energy, best_first, best_second, best_j = np.inf, NOWHERE, NOWHERE, NOWHERE
        for u in range(UNITS):
            left[u] = allowance[u] - used[u]
        found = closest_mirrors(
            i, partners, sums, inverse, centre, n_balanced, takes, chosen, scores
        )
        # Squares spread the effort over resources; with several, what is far below the peak is no
        # matter.
        aim = 0.0 if n_balanced == 1 else AIM * worst
        enough = -np.inf
        for p in range(found):
            if n_nodes > MANY_NODES and best_energy < enough:
                break  # both are settled to a tenth: time is better spent on other nodes
            j = chosen[p]
            before = energy_at(i, sums[i], inverse, centre, limit, sums, n_balanced, aim)
            before += energy_at(j, sums[j], inverse, centre, limit, sums, n_balanced, aim)
            enough = 0.01 * worst * worst - before
            # Nothing goes from i to j: only the other way.
            second, e = best_item(
                j, i, sums[j], sums[i], left, NOWHERE, by_size, aim, random,
                load, inverse, centre, limit, n_balanced, takes, limited, allowed_start,
                allowed_nodes, home, home_begin, cost, place, sums, visitors, begin, room, count,
            )  # fmt: skip
            if e - before < best_energy:
                best_energy, best_first, best_second, best_j = e - before, NOWHERE, second, j
            at_home = home_begin[i + 1] - home_begin[i]
            length = min(at_home + count[i], 2 * LONGEST_SCAN)
            offset = 0
            if at_home + count[i] > length:
                offset = random_below(random, at_home + count[i])
            for step in range(length):
                at = (offset + step) % (at_home + count[i])
                if at < at_home:
                    first = home_begin[i] + at
                    if place[first] != i:
                        continue
                else:
                    first = visitors[begin[i] + at - at_home]
                if not may_go(first, j, takes, limited, allowed_start, allowed_nodes):
                    if j != home[first]:
                        continue
                fits = j == home[first] or count[j] < room[j]
                for u in range(UNITS):
                    spare[u] = left[u] - fee(first, j, u, home, cost) + fee(first, i, u, home, cost)
                    fits = fits and spare[u] >= 0.0
                for r in range(n_resources):
                    value_i[r] = sums[i, r] - load[first, r]
                    value_j[r] = sums[j, r] + load[first, r]
                if fits:
                    e = energy_at(i, value_i, inverse, centre, limit, sums, n_balanced, aim)
                    e += energy_at(j, value_j, inverse, centre, limit, sums, n_balanced, aim)
                    if e - before < best_energy:
                        best_energy, best_first, best_second, best_j = e - before, first, NOWHERE, j
                second, e = best_item(
                    j, i, value_j, value_i, spare, first, by_size, aim, random,
                    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start,
                    allowed_nodes, home, home_begin, cost, place, sums, visitors, begin, room, count,
                )  # fmt: skip
                if e - before < best_energy:
                    best_energy, best_first, best_second, best_j = e - before, first, second, j
        j = best_j
        if not (best_energy < -1e-15 * worst * worst):
            stuck[i] = True
            continue
        # The sum of squares fell; so must the larger of both deviations, or this never ends.
        old = max(worst, peak(j, sums, inverse, centre, n_balanced))
        if best_first >= 0:
            put(
                best_first, j, load, home, cost,
                place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
            )  # fmt: skip
        if best_second >= 0:
            put(
                best_second, i, load, home, cost,
                place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
            )  # fmt: skip
        new = max(
            peak(i, sums, inverse, centre, n_balanced), peak(j, sums, inverse, centre, n_balanced)
        )
        if new >= old * (1.0 - 1e-9):
            if best_second >= 0:
                put(
                    best_second, j, load, home, cost,
                    place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
                )  # fmt: skip
            if best_first >= 0:
                put(
                    best_first, i, load, home, cost,
                    place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
                )  # fmt: skip
            stuck[i] = True
            continue
        stuck[i] = False
        stuck[j] = False
        repaired += 1
    return repaired


@compiled
def send_home(  # type: ignore[no-untyped-def]
    ceiling, order,
    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start, allowed_nodes,
    home, home_begin, cost, allowance,
    place, sums, visitors, begin, room, count, slot, used, moved, moved_slot, n_moved,
):  # fmt: skip
    """Undo the moves, in this order, that the ceiling on deviations does not need."""
    undone = 0
    values = np.empty(sums.shape[1])
    for at in range(len(order)):
        item = order[at]
        h, x = home[item], place[item]
        if h < 0 or h == x:
            continue
        fits = True
        for r in range(sums.shape[1]):
            values[r] = sums[h, r] + load[item, r]
            less = sums[x, r] - load[item, r]
            if r < n_balanced:
                if abs(values[r] * inverse[h, r] - centre[h, r]) > ceiling:
                    fits = False
                if abs(less * inverse[x, r] - centre[x, r]) > ceiling:
                    fits = False
            elif values[r] > limit[h, r]:
                fits = False
        if fits:
            put(
                item, h, load, home, cost,
                place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
            )  # fmt: skip
            undone += 1
    return undone


@compiled
def drain(  # type: ignore[no-untyped-def]
    ceiling, order,
    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start, allowed_nodes,
    home, home_begin, cost, allowance,
    place, sums, visitors, begin, room, count, slot, used, moved, moved_slot, n_moved,
):  # fmt: skip
    """Take these items off their nodes, each to where the largest deviation stays least.

    As far as the budget lasts and no node gets above the ceiling; returns how many were taken.
    """
    taken = 0
    for at in range(len(order)):
        item = order[at]
        fits = True
        for u in range(UNITS):
            fits = fits and used[u] + cost[item, u] <= allowance[u]
        if not fits:
            continue
        best, least = NOWHERE, np.inf
        for j in range(sums.shape[0]):
            if count[j] >= room[j] or not may_go(
                item, j, takes, limited, allowed_start, allowed_nodes
            ):
                continue
            worst = -np.inf if n_balanced > 0 else 0.0
            for r in range(sums.shape[1]):
                value = sums[j, r] + load[item, r]
                if r < n_balanced:
                    worst = max(worst, value * inverse[j, r] - centre[j, r])
                elif load[item, r] > 0.0 and value > limit[j, r]:
                    worst = np.inf
            if worst <= ceiling and worst < least:
                best, least = j, worst
        if best >= 0:
            put(
                item, best, load, home, cost,
                place, sums, visitors, begin, count, slot, used, moved, moved_slot, n_moved,
            )  # fmt: skip
            taken += 1
    return taken
