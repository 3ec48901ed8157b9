"""Annealing: a Metropolis search over relocations, swaps, replacements and rings of three nodes."""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels.arrays import (
    COARSE,
    EXCHANGES,
    NOWHERE,
    PAIRED,
    UNITS,
    Gap,
    Proposal,
    Scratch,
)
from solvers.rebalance.kernels.compiled import compiled, compiled_without_allocation, inlined
from solvers.rebalance.kernels.deviation import energy_at, energy_now, peak, worst_node
from solvers.rebalance.kernels.item_choice import best_item, fitting_item, pick_item
from solvers.rebalance.kernels.moves import cost_on_node, has_room, may_go, put
from solvers.rebalance.kernels.random_numbers import random_below, random_unit


@compiled
def anneal(schedule, rule, random, fixed, plan, best):  # type: ignore[no-untyped-def]
    """Anneal the plan until the target is met or the proposals are used up.

    Args:
        schedule: Number and kinds of proposals, and temperatures.
        rule: Target of the deviations, and whether items are chosen by size.
        random: State of the random numbers.
        fixed: The arrays that no move changes.
        plan: The current plan; it is changed.
        best: Overwritten by each plan with a smaller largest deviation.

    Returns:
        The number of proposals made.
    """
    n_nodes, n_resources = plan.sums.shape
    if fixed.load.shape[0] == 0 or n_nodes < 2:
        return schedule.proposals
    scratch = Scratch(
        random,
        np.empty(UNITS),
        np.empty(n_resources),
        np.empty(n_resources),
        np.empty(n_resources),
        np.empty(n_resources),
    )
    energy = 0.0
    for i in range(n_nodes):
        energy += energy_now(i, fixed, plan, rule.target)
    shrink = (schedule.cold / schedule.hot) ** (1.0 / max(1, schedule.proposals))
    temperature = schedule.hot
    for step in range(schedule.proposals):
        temperature *= shrink
        proposal = propose(schedule.kinds, rule, scratch, fixed, plan)
        if proposal.first == NOWHERE or not is_accepted(proposal.delta, temperature, random):
            continue
        apply(proposal, fixed, plan)
        energy += proposal.delta
        if proposal.delta < 0.0 and met_target(energy, rule.target, fixed, plan, best):
            return step + 1
    now, _ = worst_node(fixed, plan)
    if now < best.deviation[0]:
        keep(now, plan, best)
    return schedule.proposals


@compiled_without_allocation
def keep(deviation, plan, best):  # type: ignore[no-untyped-def]
    """Overwrite the best plan by the current plan."""
    best.deviation[0] = deviation
    copy(plan.place, best.place)


@inlined
def met_target(energy, target, fixed, plan, best):  # type: ignore[no-untyped-def]
    """Keep the plan if it is clearly better than the best one; return whether it meets the target.

    The energy is the sum over all nodes. Below the energy of one node at the best deviation, no
    node can be above it. The running energy drifts, so the deviations themselves decide.
    """
    if energy >= (best.deviation[0] - target) ** 2:
        return False
    now, _ = worst_node(fixed, plan)
    if now < best.deviation[0] * (1.0 - 1e-3) or now <= target:
        keep(now, plan, best)
    return now <= target


@inlined
def is_accepted(delta, temperature, random):  # type: ignore[no-untyped-def]
    """Metropolis rule: accept every decrease of the energy, and some increases.

    The probability of an increase falls with its size.
    """
    return delta <= 0.0 or random_unit(random) < np.exp(-delta / temperature)


@inlined
def apply(proposal, fixed, plan):  # type: ignore[no-untyped-def]
    """Make the moves of a proposal."""
    put(proposal.first, proposal.first_to, fixed, plan)
    if proposal.second >= 0:
        put(proposal.second, proposal.second_to, fixed, plan)
    if proposal.third >= 0:
        put(proposal.third, proposal.third_to, fixed, plan)


@inlined
def nothing():  # type: ignore[no-untyped-def]
    """Return the proposal without a move."""
    return Proposal(NOWHERE, 0, NOWHERE, 0, NOWHERE, 0, np.inf)


@compiled_without_allocation
def propose(kinds, rule, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Draw a node with a large deviation and a kind, and propose moves of that kind."""
    i = worst_of_a_few(scratch.random, fixed, plan)
    kind = random_below(scratch.random, kinds)
    for u in range(UNITS):
        scratch.left[u] = fixed.allowance[u] - plan.used[u]
    if kind < EXCHANGES:
        return propose_exchange(kind, i, rule, scratch, fixed, plan)
    if kind >= PAIRED:
        return propose_ring(kind, i, rule, scratch, fixed, plan)
    return propose_replacement(kind, i, rule, scratch, fixed, plan)


@inlined
def worst_of_a_few(random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return the node with the largest deviation among 1 to 16 random nodes."""
    n_nodes = plan.sums.shape[0]
    i = random_below(random, n_nodes)
    worst = peak(i, fixed, plan)
    for _ in range((1 << random_below(random, 5)) - 1):
        other = random_below(random, n_nodes)
        p = peak(other, fixed, plan)
        if p > worst:
            worst, i = p, other
    return i


@inlined
def exchange_of(kind, i, random, fixed, plan):  # type: ignore[no-untyped-def]
    """Return an item, its node and its target. Kinds 0 and 1 prefer moved items."""
    j = random_below(random, plan.sums.shape[0])
    if kind < 2 and plan.n_moved[0] > 0:
        first = plan.moved[random_below(random, plan.n_moved[0])]
        if plan.place[first] == i:
            j = i if kind == 0 else j
        else:
            j = i
        i = plan.place[first]
        if i == j and fixed.home[first] >= 0:
            j = fixed.home[first]
        return first, i, j
    if kind == 4:
        i, j = j, i
    return pick_item(i, random, fixed, plan), i, j


@inlined
def propose_exchange(kind, i, rule, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Relocate an item from i to j, or swap it with the best item of j."""
    random = scratch.random
    first, i, j = exchange_of(kind, i, random, fixed, plan)
    if first == NOWHERE or i == j or not may_go(first, j, fixed):
        return nothing()
    left, value_i, value_j = scratch.left, scratch.value_i, scratch.value_j
    before = energy_now(i, fixed, plan, rule.target)
    before += energy_now(j, fixed, plan, rule.target)
    fits = has_room(first, j, fixed, plan)
    for u in range(UNITS):
        left[u] -= cost_on_node(first, j, u, fixed) - cost_on_node(first, i, u, fixed)
        fits = fits and left[u] >= 0.0
    for r in range(plan.sums.shape[1]):
        value_i[r] = plan.sums[i, r] - fixed.load[first, r]
        value_j[r] = plan.sums[j, r] + fixed.load[first, r]
    delta, second = np.inf, NOWHERE
    if fits:
        delta = energy_at(i, value_i, fixed, plan, rule.target)
        delta += energy_at(j, value_j, fixed, plan, rule.target)
        delta -= before
    other, e = best_item(Gap(j, i, value_j, value_i, left, first), rule, random, fixed, plan)
    if e - before < delta:
        delta, second = e - before, other
    return Proposal(first, j, second, i, NOWHERE, 0, delta)


@inlined
def moved_item(prefer_visitor, i, random, plan):  # type: ignore[no-untyped-def]
    """Return a random visitor of i if one is preferred and exists, otherwise any moved item."""
    if prefer_visitor and plan.n_visitors[i] > 0:
        return plan.visitors[plan.begin[i] + random_below(random, plan.n_visitors[i])]
    return plan.moved[random_below(random, plan.n_moved[0])]


@inlined
def is_ring(first, h, j, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether h, j and the node of the item are three nodes that can each receive an item."""
    x = plan.place[first]
    if h == x or j == h or j == x or plan.n_visitors[j] >= plan.room[j]:
        return False
    if not (fixed.takes[x] and fixed.takes[j]):
        return False
    return h == fixed.home[first] or (plan.n_visitors[h] < plan.room[h] and may_go(first, h, fixed))


@inlined
def propose_ring(kind, i, rule, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Three nodes in a ring: each gives and receives items of about the same load."""
    random = scratch.random
    n_nodes, n_resources = plan.sums.shape
    if plan.n_moved[0] == 0:
        return nothing()
    first = moved_item(kind % 2 == 0, i, random, plan)
    h, x = fixed.home[first], plan.place[first]
    if h < 0 or random_below(random, 2) == 0:
        h = random_below(random, n_nodes)
    j = i if i != h and i != x else random_below(random, n_nodes)
    if not is_ring(first, h, j, fixed, plan):
        return nothing()
    left, value_j = scratch.left, scratch.value_j
    value_h, value_x = scratch.value_h, scratch.value_x
    for r in range(n_resources):
        value_x[r] = plan.sums[x, r] - fixed.load[first, r]
        value_h[r] = plan.sums[h, r] + fixed.load[first, r]
    second = fitting_item(h, value_h, rule.by_size, random, fixed, plan)
    if second == NOWHERE or not may_go(second, j, fixed):
        return nothing()
    for u in range(UNITS):
        left[u] -= cost_on_node(first, h, u, fixed) - fixed.cost[first, u]
        left[u] -= cost_on_node(second, j, u, fixed) - cost_on_node(second, h, u, fixed)
    for r in range(n_resources):
        value_h[r] -= fixed.load[second, r]
        value_j[r] = plan.sums[j, r] + fixed.load[second, r]
    before = energy_now(h, fixed, plan, rule.target)
    before += energy_now(x, fixed, plan, rule.target)
    before += energy_now(j, fixed, plan, rule.target)
    still = energy_at(h, value_h, fixed, plan, rule.target)
    third, e = best_item(Gap(j, x, value_j, value_x, left, second), rule, random, fixed, plan)
    if third == NOWHERE:
        return nothing()
    return Proposal(first, h, second, j, third, x, e + still - before)


@inlined
def ends_of_replacement(kind, i, h, x, random, plan):  # type: ignore[no-untyped-def]
    """Return the nodes between which the second item of a replacement moves."""
    if kind == 6:
        return i, x
    if kind >= COARSE:
        return h, x
    if kind == 7:
        giver, taker = i, random_below(random, plan.sums.shape[0])
        if random_below(random, 2) == 0:
            return taker, giver
        return giver, taker
    return h, i


@inlined
def propose_replacement(kind, i, rule, scratch, fixed, plan):  # type: ignore[no-untyped-def]
    """Move a moved item to its home node or elsewhere, and another item instead of it."""
    random = scratch.random
    if plan.n_moved[0] == 0:
        return nothing()
    first = moved_item(kind > COARSE, i, random, plan)
    home, x = fixed.home[first], plan.place[first]
    h = home
    if h < 0 or random_below(random, 8) == 0:
        h = random_below(random, plan.sums.shape[0])
    if h != home and (h == x or not may_go(first, h, fixed) or plan.n_visitors[h] >= plan.room[h]):
        return nothing()
    giver, taker = ends_of_replacement(kind, i, h, x, random, plan)
    if giver == taker or h == x:
        return nothing()
    for u in range(UNITS):
        scratch.left[u] -= cost_on_node(first, h, u, fixed) - fixed.cost[first, u]
    before, still = replacement_energies(
        first, (h, x, giver, taker), scratch, rule.target, fixed, plan
    )
    gap = Gap(giver, taker, scratch.value_i, scratch.value_j, scratch.left, first)
    second, e = best_item(gap, rule, random, fixed, plan)
    if second == NOWHERE:
        return nothing()
    return Proposal(first, h, second, taker, NOWHERE, 0, e + still - before)


@inlined
def copy(source, target):  # type: ignore[no-untyped-def]
    """Copy the numbers of an array. A slice assignment would allocate."""
    for at in range(len(source)):
        target[at] = source[at]


@inlined
def replacement_energies(first, nodes, scratch, target, fixed, plan):  # type: ignore[no-untyped-def]
    """Return two energies: of all nodes now, and after the first move of those that only it changes.

    Writes the sums of giver and taker after the first move to ``value_i`` and ``value_j``.
    """
    h, x, giver, taker = nodes
    value_i, value_j = scratch.value_i, scratch.value_j
    value_h, value_x = scratch.value_h, scratch.value_x
    before = energy_now(h, fixed, plan, target)
    before += energy_now(x, fixed, plan, target)
    for r in range(plan.sums.shape[1]):
        value_h[r] = plan.sums[h, r] + fixed.load[first, r]
        value_x[r] = plan.sums[x, r] - fixed.load[first, r]
        value_i[r] = plan.sums[giver, r]
        value_j[r] = plan.sums[taker, r]
    still = 0.0
    for node, value in ((h, value_h), (x, value_x)):
        if giver == node:
            copy(value, value_i)
        elif taker == node:
            copy(value, value_j)
        else:
            still += energy_at(node, value, fixed, plan, target)
    if giver != h and giver != x:
        before += energy_now(giver, fixed, plan, target)
    if taker != h and taker != x:
        before += energy_now(taker, fixed, plan, target)
    return before, still
