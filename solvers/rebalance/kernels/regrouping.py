"""Regrouping: a Metropolis search that divides the visitors of two nodes between them anew.

A proposal of ``annealing`` moves at most three items, and of the ways to lower two deviations it
tries a few dozen. Many small loads leave no such proposal long before a plan is as good as it can
be. Here a proposal tries every subset of the visitors of two nodes to change sides, and with each
subset that gives moves back, up to two items that are at home: thousands of ways, of which one
fits far better. It is for one resource and a budget of moves only, where items are sorted by size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.model.problem import FloatArray, IntArray
from solvers.rebalance.kernels.annealing import is_accepted, keep, met_target, worst_of_a_few
from solvers.rebalance.kernels.arrays import NOWHERE
from solvers.rebalance.kernels.compiled import compiled, compiled_without_allocation, inlined
from solvers.rebalance.kernels.deviation import energy_now, excess, worst_node
from solvers.rebalance.kernels.item_choice import first_of_size
from solvers.rebalance.kernels.moves import may_go, put
from solvers.rebalance.kernels.random_numbers import random_below

MOST_VISITORS = 10
"""Most visitors of two nodes that one proposal divides: 1,024 subsets, some microseconds."""
LOOKED_AT = 4
"""Items on either side of the wanted size that are looked at, because some of them have moved."""
HOPELESS = 20.0
"""A proposal that raises the energy by this many temperatures at least is not worked out."""


class SubsetScratch(NamedTuple):
    """Memory for the visitors of two nodes, and for all subsets of them."""

    items: IntArray  # [MOST_VISITORS]
    shift: FloatArray  # [2 ** MOST_VISITORS]: load that the subset moves from i to j
    freed: IntArray  # [2 ** MOST_VISITORS]: moves that it gives back, by items that go home


class SharedLoad(NamedTuple):
    """Two nodes, and the load that is to move from i to j."""

    i: int
    j: int
    wanted: float
    """The load whose move makes the two deviations as small as possible."""
    enough: float
    """If the load is at most this far from ``wanted``, both deviations are within the target."""
    left: float
    """Moves left in the budget."""


class Division(NamedTuple):
    """A subset of the visitors, as bits, and up to two items at home, that change sides."""

    subset: int
    first: int
    second: int
    off: float
    """How far the load that they move is from the wanted one."""


@compiled
def regroup(schedule, rule, random, fixed, plan, best):  # type: ignore[no-untyped-def]
    """Divide the items of pairs of nodes anew until the target is met or all proposals are made.

    Args:
        schedule: Number of proposals, and temperatures.
        rule: Target of the deviations.
        random: State of the random numbers.
        fixed: The arrays that no move changes.
        plan: The current plan; it is changed.
        best: Overwritten by each plan with a smaller largest deviation.

    Returns:
        The number of proposals made.
    """
    n_nodes = plan.sums.shape[0]
    if fixed.load.shape[0] == 0 or n_nodes < 2:
        return schedule.proposals
    scratch = SubsetScratch(
        np.empty(MOST_VISITORS, dtype=np.int64),
        np.empty(1 << MOST_VISITORS),
        np.empty(1 << MOST_VISITORS, dtype=np.int64),
    )
    energy = 0.0
    for i in range(n_nodes):
        energy += energy_now(i, fixed, plan, rule.target)
    shrink = (schedule.cold / schedule.hot) ** (1.0 / max(1, schedule.proposals))
    temperature = schedule.hot
    for step in range(schedule.proposals):
        temperature *= shrink
        i = worst_of_a_few(random, fixed, plan)
        j = mirror_of_a_few(i, random, fixed, plan)
        if i == j or not may_share(i, j, fixed, plan):
            continue
        pair, least = shared_load(i, j, rule.target, fixed, plan)
        if least > HOPELESS * temperature:
            continue
        delta = divide(pair, temperature, rule, random, (scratch, fixed, plan))
        energy += delta
        if delta < 0.0 and met_target(energy, rule.target, fixed, plan, best):
            return step + 1
    now, _ = worst_node(fixed, plan)
    if now < best.deviation[0]:
        keep(now, plan, best)
    return schedule.proposals


@inlined
def mirror_of_a_few(i, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the node whose deviation is most nearly opposite to that of i, of 1 to 8 random ones."""
    n_nodes = plan.sums.shape[0]
    deviation = plan.sums[i, 0] * fixed.inverse[i, 0] - fixed.centre[i, 0]
    best, least = i, np.inf
    for _ in range(1 << random_below(random, 4)):
        j = random_below(random, n_nodes)
        off = abs(plan.sums[j, 0] * fixed.inverse[j, 0] - fixed.centre[j, 0] + deviation)
        if j != i and off < least:
            best, least = j, off
    return best


@inlined
def may_share(i, j, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether both nodes receive items, and each has slots for all visitors of the two."""
    if not (fixed.takes[i] and fixed.takes[j]):
        return False
    return plan.n_visitors[i] + plan.n_visitors[j] + 2 <= min(plan.room[i], plan.room[j])


@inlined
def shared_load(i, j, target, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the load to move from i to j, and the least change of the energy that this can give."""
    x, y = fixed.inverse[i, 0], fixed.inverse[j, 0]
    at_i = plan.sums[i, 0] * x - fixed.centre[i, 0]
    at_j = plan.sums[j, 0] * y - fixed.centre[j, 0]
    wanted = (at_i * x - at_j * y) / (x * x + y * y)
    after_i, after_j = abs(at_i - wanted * x), abs(at_j + wanted * y)
    enough = min((target - after_i) / x, (target - after_j) / y)
    least = excess(after_i, target) + excess(after_j, target)
    least -= excess(at_i, target) + excess(at_j, target)
    left = fixed.allowance[0] - plan.used[0]
    return SharedLoad(i, j, wanted, enough, left), least


@compiled_without_allocation
def divide(pair, temperature, rule, random, arrays):  # type: ignore[no-untyped-def]
    """Make the best division of the two nodes if it is accepted. Returns the change of the energy."""
    scratch, fixed, plan = arrays
    of_i = visitors_of(pair.i, pair.j, 0, random, arrays)
    count = visitors_of(pair.j, pair.i, of_i, random, arrays)
    size = all_subsets(pair, of_i, count, scratch, fixed)
    best = best_division(pair, size, random, scratch, fixed, plan)
    if best.off == np.inf:
        return 0.0
    before = energy_now(pair.i, fixed, plan, rule.target)
    before += energy_now(pair.j, fixed, plan, rule.target)
    change_sides(best, pair, count, scratch, fixed, plan)
    delta = energy_now(pair.i, fixed, plan, rule.target)
    delta += energy_now(pair.j, fixed, plan, rule.target)
    delta -= before
    if is_accepted(delta, temperature, random):
        return delta
    change_sides(best, pair, count, scratch, fixed, plan)
    return 0.0


@inlined
def visitors_of(giver, taker, count, random, arrays):  # type: ignore[no-untyped-def]
    """Write visitors of the giver that may go to the taker behind the first ``count`` items.

    Half of the places are for the first node. Of more visitors, a random range is taken.
    Returns the new count.
    """
    scratch, fixed, plan = arrays
    n = plan.n_visitors[giver]
    most = MOST_VISITORS if count > 0 else MOST_VISITORS // 2
    at = 0
    if n > most - count:
        at = random_below(random, n)
    for _ in range(n):
        if count >= most:
            break
        item = plan.visitors[plan.begin[giver] + at]
        at += 1
        if at == n:
            at = 0
        if not fixed.limited[item] or may_go(item, taker, fixed):
            scratch.items[count] = item
            count += 1
    return count


@inlined
def all_subsets(pair, of_i, count, scratch, fixed):  # type: ignore[no-untyped-def]
    """Write the load that each subset moves, and the moves that it frees. Returns how many."""
    size = 1
    scratch.shift[0] = 0.0
    scratch.freed[0] = 0
    for at in range(count):
        item = scratch.items[at]
        load, other = fixed.load[item, 0], pair.j
        if at >= of_i:
            load, other = -load, pair.i
        freed = 1 if fixed.home[item] == other else 0
        for k in range(size):
            scratch.shift[size + k] = scratch.shift[k] + load
            scratch.freed[size + k] = scratch.freed[k] + freed
        size *= 2
    return size


@inlined
def best_division(pair, size, random, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the first division found that brings both nodes within the target, else the best.

    The first subset is random, so that not always the same division is found.
    """
    best = Division(0, NOWHERE, NOWHERE, np.inf)
    subset = random_below(random, size)
    for _ in range(size):
        subset += 1
        if subset == size:
            subset = 0
        rest = pair.wanted - scratch.shift[subset]
        if subset != 0 and abs(rest) < best.off:
            best = Division(subset, NOWHERE, NOWHERE, abs(rest))
        free = pair.left + scratch.freed[subset]
        if free >= 1.0:
            best = with_one_from_home(subset, rest, pair, best, fixed, plan)
        if free >= 2.0:
            best = with_two_from_home(subset, rest, pair, best, fixed, plan)
        if best.off <= pair.enough:
            break
    return best


@inlined
def with_one_from_home(subset, rest, pair, best, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the better of the given division and the subset with an item that leaves its home."""
    if rest > 0.0:
        item, off = nearest_at_home(pair.i, rest, fixed, plan)
    else:
        item, off = nearest_at_home(pair.j, -rest, fixed, plan)
    return Division(subset, item, NOWHERE, off) if off < best.off else best


@inlined
def with_two_from_home(subset, rest, pair, best, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the better of the given division and the subset with two items that leave home."""
    one = best_difference(pair.i, pair.j, rest, fixed, plan)
    if one.off < best.off:
        best = Division(subset, one.first, one.second, one.off)
    if rest > 0.0:
        one = best_sum(pair.i, rest, fixed, plan)
    else:
        one = best_sum(pair.j, -rest, fixed, plan)
    if one.off < best.off:
        best = Division(subset, one.first, one.second, one.off)
    return best


@inlined
def is_at_home(item, node, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether the item is on this node, its home, and may go to any other node."""
    return plan.place[item] == node and not fixed.limited[item]


@compiled_without_allocation
def nearest_at_home(node, wanted, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the item at home whose load is nearest to the wanted one, and how far off it is."""
    low, high = fixed.home_begin[node], fixed.home_begin[node + 1]
    begin = first_of_size(wanted, low, high, fixed)
    best, least = NOWHERE, np.inf
    for item in range(begin, min(begin + LOOKED_AT, high)):
        if is_at_home(item, node, fixed, plan):
            best, least = item, fixed.load[item, 0] - wanted
            break
    for item in range(begin - 1, max(begin - 1 - LOOKED_AT, low - 1), -1):
        if is_at_home(item, node, fixed, plan):
            if wanted - fixed.load[item, 0] < least:
                best, least = item, wanted - fixed.load[item, 0]
            break
    return best, least


@compiled_without_allocation
def best_difference(i, j, wanted, fixed, plan):  # type: ignore[no-untyped-def]
    """Return items at home on i and on j whose difference of loads is nearest to the wanted one."""
    a, b = fixed.home_begin[i], fixed.home_begin[j]
    best = Division(0, NOWHERE, NOWHERE, np.inf)
    while a < fixed.home_begin[i + 1] and b < fixed.home_begin[j + 1]:
        if not is_at_home(a, i, fixed, plan):
            a += 1
            continue
        if not is_at_home(b, j, fixed, plan):
            b += 1
            continue
        off = fixed.load[a, 0] - fixed.load[b, 0] - wanted
        if abs(off) < best.off:
            best = Division(0, a, b, abs(off))
        if off < 0.0:
            a += 1
        else:
            b += 1
    return best


@compiled_without_allocation
def best_sum(node, wanted, fixed, plan):  # type: ignore[no-untyped-def]
    """Return two items at home on the node whose sum of loads is nearest to the wanted one."""
    a, b = fixed.home_begin[node], fixed.home_begin[node + 1] - 1
    best = Division(0, NOWHERE, NOWHERE, np.inf)
    while a < b:
        if not is_at_home(a, node, fixed, plan):
            a += 1
            continue
        if not is_at_home(b, node, fixed, plan):
            b -= 1
            continue
        off = fixed.load[a, 0] + fixed.load[b, 0] - wanted
        if abs(off) < best.off:
            best = Division(0, a, b, abs(off))
        if off < 0.0:
            a += 1
        else:
            b -= 1
    return best


@inlined
def change_sides(division, pair, count, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Move the items of a division to the other node of the pair. A second call takes it back."""
    for at in range(count):
        if (division.subset >> at) & 1:
            change_side(scratch.items[at], pair, fixed, plan)
    if division.first >= 0:
        change_side(division.first, pair, fixed, plan)
    if division.second >= 0:
        change_side(division.second, pair, fixed, plan)


@inlined
def change_side(item, pair, fixed, plan):  # type: ignore[no-untyped-def]
    """Move an item to the other node of the pair."""
    put(item, pair.j if plan.place[item] == pair.i else pair.i, fixed, plan)
