"""Polishing: exchanges between the worst nodes and nodes of opposite deviation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.model.problem import FloatArray, IntArray
from solvers.rebalance.kernels.arrays import NOWHERE, UNITS, Gap, RandomState, SearchRule
from solvers.rebalance.kernels.compiled import compiled, compiled_without_allocation, inlined
from solvers.rebalance.kernels.deviation import energy_at, energy_now, peak
from solvers.rebalance.kernels.item_choice import LONGEST_SCAN, best_item
from solvers.rebalance.kernels.moves import cost_on_node, has_room, may_go, put
from solvers.rebalance.kernels.random_numbers import random_below

MANY_NODES = 500
"""With more nodes than this the first good partner is used: the time is better used for others."""
AIM = 0.3
"""With several resources: the aim of a repair, as a share of the node's largest deviation."""


class PolishingPass(NamedTuple):
    """The limits of one pass of polishing."""

    repairs: int
    """Most nodes that are repaired, the worst first."""
    floor: float
    """Nodes with a smaller deviation are not repaired."""
    partners: int
    """Number of nodes that are tried as partners of each."""
    by_size: bool
    """As in ``SearchRule``."""


class PolishScratch(NamedTuple):
    """Random numbers and memory for one repair at a time."""

    random: RandomState
    left: FloatArray  # [3]: the rest of the budget
    spare: FloatArray  # [3]: the rest of the budget after the first item
    value_i: FloatArray  # [R]
    value_j: FloatArray  # [R]
    chosen: IntArray  # [partners]: the nodes to try
    scores: FloatArray  # [partners]


class NodePair(NamedTuple):
    """Two nodes, and the energy of both now."""

    i: int
    j: int
    before: float


class Exchange(NamedTuple):
    """The best exchange so far: ``first`` moves to the partner, ``second`` comes from it."""

    energy: float
    first: int
    second: int
    partner: int


@compiled
def polish(task, stuck, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Make one pass over the worst nodes, worst first.

    The pass ends early at a node that is marked in ``stuck``: no exchange of that node helped
    since it last changed, so the largest deviation cannot be improved.

    Args:
        task: The limits of the pass.
        stuck: True for nodes without a useful exchange; it is updated.
        random: State of the random numbers.
        fixed: The arrays that no move changes.
        plan: The current plan; it is changed.

    Returns:
        The number of repaired nodes.
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
            continue  # It was the partner of a worse node in this pass.
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
    """Return the exchange of node i with a node of opposite deviation that lowers the energy most."""
    n_nodes = plan.sums.shape[0]
    for u in range(UNITS):
        scratch.left[u] = fixed.allowance[u] - plan.used[u]
    found = closest_mirrors(i, fixed, plan, scratch.chosen, scratch.scores)
    # The energy is a sum of squares over the resources. With several resources, deviations far
    # below the largest one do not matter.
    rule = SearchRule(0.0 if fixed.n_balanced == 1 else AIM * worst, by_size)
    best = Exchange(np.inf, NOWHERE, NOWHERE, NOWHERE)
    enough = -np.inf
    for p in range(found):
        if n_nodes > MANY_NODES and best.energy < enough:
            break  # Both deviations fell to a tenth: the time is better used for other nodes.
        j = scratch.chosen[p]
        before = energy_now(i, fixed, plan, rule.target)
        before += energy_now(j, fixed, plan, rule.target)
        enough = 0.01 * worst * worst - before
        best = exchange_with(NodePair(i, j, before), best, rule, scratch, fixed, plan)
    return best


@inlined
def exchange_with(pair, best, rule, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the better of the given exchange and the best one of the pair."""
    i, j, random = pair.i, pair.j, scratch.random
    # No item moves from i to j, only one from j to i.
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
    """Return the best exchange in which this item moves from i to j."""
    i, j, before = pair.i, pair.j, pair.before
    best = Exchange(np.inf, NOWHERE, NOWHERE, j)
    spare, value_i, value_j = scratch.spare, scratch.value_i, scratch.value_j
    fits = has_room(first, j, fixed, plan)
    for u in range(UNITS):
        spare[u] = (
            scratch.left[u] - cost_on_node(first, j, u, fixed) + cost_on_node(first, i, u, fixed)
        )
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
    """Make the exchange; undo it and return False if it does not lower the larger deviation.

    The sum of squares falls in any case. If the larger deviation did not, polishing would not end.
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
    """Write the nodes with the most opposite deviations to ``chosen``; return how many."""
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
    """Return the sum of squares of the deviations if both nodes share their load; 0 is best."""
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
