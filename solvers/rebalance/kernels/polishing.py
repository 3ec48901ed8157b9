"""Polishing: the worst nodes are repaired by exchanges with nodes that mirror their deviation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.model.problem import FloatArray, IntArray
from solvers.rebalance.kernels.arrays import NOWHERE, UNITS, Gap, RandomState, SearchRule
from solvers.rebalance.kernels.compiled import compiled, compiled_without_allocation, inlined
from solvers.rebalance.kernels.deviation import energy_at, energy_now, peak
from solvers.rebalance.kernels.item_choice import LONGEST_SCAN, best_item
from solvers.rebalance.kernels.moves import fee, has_room, may_go, put
from solvers.rebalance.kernels.random_numbers import random_below

MANY_NODES = 500
"""Beyond this many nodes the first good partner is taken: time is better spent on other nodes."""
AIM = 0.3
"""With several resources: a repaired node is to come down to this share of its peak."""


class PolishingPass(NamedTuple):
    """How much one pass of polishing does."""

    repairs: int
    """Nodes that are repaired at most, the worst first."""
    floor: float
    """Nodes with a smaller deviation are left alone."""
    partners: int
    """Nodes that are tried as partners of each."""
    by_size: bool
    """As in ``SearchRule``."""


class PolishScratch(NamedTuple):
    """Random numbers and memory for one repair at a time."""

    random: RandomState
    left: FloatArray  # [3]: what is left of the budget
    spare: FloatArray  # [3]: what is left of the budget after the first item
    value_i: FloatArray  # [R]
    value_j: FloatArray  # [R]
    chosen: IntArray  # [partners]: the nodes to try
    scores: FloatArray  # [partners]


class NodePair(NamedTuple):
    """Two nodes, and the energy of both as they are."""

    i: int
    j: int
    before: float


class Exchange(NamedTuple):
    """The best exchange so far: ``first`` goes to the partner, ``second`` comes from it."""

    energy: float
    first: int
    second: int
    partner: int


@compiled
def polish(task, stuck, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Make one pass over the worst nodes, worst first. Returns how many were repaired.

    The pass ends early at a node that is marked in ``stuck``: that node found no partner since it
    last changed, so the largest deviation cannot be improved.
    """
    n_nodes, n_resources = plan.sums.shape
    scratch = PolishScratch(
        random,
        np.empty(UNITS),
        np.empty(UNITS),
        np.empty(n_resources),
        np.empty(n_resources),
        np.empty(task.partners, dtype=np.int64),
        np.empty(task.partners),
    )
    peaks = np.empty(n_nodes)
    for i in range(n_nodes):
        peaks[i] = -peak(i, fixed, plan)
    worst_first = np.argsort(peaks)
    repaired = 0
    for position in range(min(task.repairs, n_nodes)):
        i = worst_first[position]
        worst = peak(i, fixed, plan)
        if worst <= task.floor or worst < -0.5 * peaks[i]:
            continue  # It has been the partner of a worse node.
        if stuck[i]:
            return repaired
        best = best_exchange(i, worst, task.by_size, scratch, fixed, plan)
        if not (best.energy < -1e-15 * worst * worst) or not is_exchanged(
            i, worst, best, fixed, plan
        ):
            stuck[i] = True
            continue
        stuck[i] = False
        stuck[best.partner] = False
        repaired += 1
    return repaired


@compiled_without_allocation
def best_exchange(i, worst, by_size, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """The exchange of node i with one of its mirrors that lowers the energy of both the most."""
    n_nodes = plan.sums.shape[0]
    for u in range(UNITS):
        scratch.left[u] = fixed.allowance[u] - plan.used[u]
    found = closest_mirrors(i, fixed, plan, scratch.chosen, scratch.scores)
    # Squares spread the effort over the resources. With several resources, what is far below the
    # peak does not matter.
    rule = SearchRule(0.0 if fixed.n_balanced == 1 else AIM * worst, by_size)
    best = Exchange(np.inf, NOWHERE, NOWHERE, NOWHERE)
    enough = -np.inf
    for p in range(found):
        if n_nodes > MANY_NODES and best.energy < enough:
            break  # Both deviations fell to a tenth: time is better spent on other nodes.
        j = scratch.chosen[p]
        before = energy_now(i, fixed, plan, rule.target)
        before += energy_now(j, fixed, plan, rule.target)
        enough = 0.01 * worst * worst - before
        best = exchange_with(NodePair(i, j, before), best, rule, scratch, fixed, plan)
    return best


@inlined
def exchange_with(pair, best, rule, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """The best exchange of the pair, or the one given if that is better."""
    i, j, random = pair.i, pair.j, scratch.random
    # No item goes from i to j, only one the other way.
    gap = Gap(j, i, plan.sums[j], plan.sums[i], scratch.left, NOWHERE)
    second, e = best_item(gap, rule, random, fixed, plan)
    if e - pair.before < best.energy:
        best = Exchange(e - pair.before, NOWHERE, second, j)
    at_home = fixed.home_begin[i + 1] - fixed.home_begin[i]
    n_items = at_home + plan.n_visitors[i]
    length = min(n_items, 2 * LONGEST_SCAN)
    offset = 0
    if n_items > length:
        offset = random_below(random, n_items)
    for step in range(length):
        at = (offset + step) % n_items
        if at < at_home:
            first = fixed.home_begin[i] + at
            if plan.place[first] != i:
                continue
        else:
            first = plan.visitors[plan.begin[i] + at - at_home]
        if j != fixed.home[first] and not may_go(first, j, fixed):
            continue
        one = exchange_of_item(first, pair, rule, scratch, fixed, plan)
        if one.energy < best.energy:
            best = one
    return best


@inlined
def exchange_of_item(first, pair, rule, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """The best exchange in which this item goes from i to j."""
    i, j, before = pair.i, pair.j, pair.before
    best = Exchange(np.inf, NOWHERE, NOWHERE, j)
    spare, value_i, value_j = scratch.spare, scratch.value_i, scratch.value_j
    fits = has_room(first, j, fixed, plan)
    for u in range(UNITS):
        spare[u] = scratch.left[u] - fee(first, j, u, fixed) + fee(first, i, u, fixed)
        fits = fits and spare[u] >= 0.0
    for r in range(plan.sums.shape[1]):
        value_i[r] = plan.sums[i, r] - fixed.load[first, r]
        value_j[r] = plan.sums[j, r] + fixed.load[first, r]
    if fits:
        e = energy_at(i, value_i, fixed, plan, rule.target)
        e += energy_at(j, value_j, fixed, plan, rule.target)
        if e - before < best.energy:
            best = Exchange(e - before, first, NOWHERE, j)
    second, e = best_item(
        Gap(j, i, value_j, value_i, spare, first), rule, scratch.random, fixed, plan
    )
    if e - before < best.energy:
        best = Exchange(e - before, first, second, j)
    return best


@compiled_without_allocation
def is_exchanged(i, worst, best, fixed, plan):  # type: ignore[no-untyped-def]
    """Make the exchange; undo it, and return False, if it does not lower the larger deviation.

    The sum of squares fell. If the larger deviation did not fall too, polishing would never end.
    """
    j = best.partner
    old = max(worst, peak(j, fixed, plan))
    if best.first >= 0:
        put(best.first, j, fixed, plan)
    if best.second >= 0:
        put(best.second, i, fixed, plan)
    new = max(peak(i, fixed, plan), peak(j, fixed, plan))
    if new < old * (1.0 - 1e-9):
        return True
    if best.second >= 0:
        put(best.second, j, fixed, plan)
    if best.first >= 0:
        put(best.first, i, fixed, plan)
    return False


@compiled_without_allocation
def closest_mirrors(node, fixed, plan, chosen, scores):  # type: ignore[no-untyped-def]
    """Fill ``chosen`` with the nodes whose deviation makes up for this one's best; how many."""
    found, partners = 0, len(chosen)
    for j in range(plan.sums.shape[0]):
        if j == node or not (fixed.takes[j] or fixed.takes[node]):
            continue
        score = mirror_score(node, j, fixed, plan)
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


@inlined
def mirror_score(node, j, fixed, plan):  # type: ignore[no-untyped-def]
    """The sum of squares of what is left if both nodes share their deviations: 0 is perfect."""
    score = 0.0
    for r in range(fixed.n_balanced):
        x, y = fixed.inverse[node, r], fixed.inverse[j, r]
        both = 0.0
        if x > 0.0:
            both += plan.sums[node, r] - fixed.centre[node, r] / x
        if y > 0.0:
            both += plan.sums[j, r] - fixed.centre[j, r] / y
        if x > 0.0 and y > 0.0:
            both /= 1.0 / x + 1.0 / y
        score += both * both
    return score
