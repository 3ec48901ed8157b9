"""Moves of single items: whether a move is allowed, its cost, and the update of the arrays."""

from __future__ import annotations

from solvers.rebalance.kernels.arrays import UNITS
from solvers.rebalance.kernels.compiled import compiled_without_allocation, inlined


@inlined
def may_go(item, node, fixed):  # type: ignore[no-untyped-def]
    """Return whether the node receives items and the item is allowed there."""
    if not fixed.takes[node]:
        return False
    if not fixed.limited[item]:
        return True
    for at in range(fixed.allowed_start[item], fixed.allowed_start[item + 1]):
        if fixed.allowed_nodes[at] == node:
            return True
    return False


@inlined
def has_room(item, node, fixed, plan):  # type: ignore[no-untyped-def]
    """Return whether the node has a free slot for the item. At its home an item needs none."""
    return node == fixed.home[item] or plan.n_visitors[node] < plan.room[node]


@inlined
def cost_on_node(item, node, unit, fixed):  # type: ignore[no-untyped-def]
    """Return the cost of the item on this node, in this unit of the budget; 0 at its home."""
    return 0.0 if node == fixed.home[item] else fixed.cost[item, unit]


@compiled_without_allocation
def put(item, node, fixed, plan):  # type: ignore[no-untyped-def]
    """Move an item to a node, and update all arrays of the plan in constant time."""
    old, home = plan.place[item], fixed.home[item]
    for r in range(plan.sums.shape[1]):
        plan.sums[old, r] -= fixed.load[item, r]
        plan.sums[node, r] += fixed.load[item, r]
    for u in range(UNITS):
        plan.used[u] += cost_on_node(item, node, u, fixed) - cost_on_node(item, old, u, fixed)
    plan.place[item] = node
    if old != home:
        remove_visitor(item, old, plan)
    if node != home:
        plan.visitors[plan.begin[node] + plan.n_visitors[node]] = item
        plan.slot[item] = plan.n_visitors[node]
        plan.n_visitors[node] += 1
        if old == home:
            plan.moved[plan.n_moved[0]] = item
            plan.moved_slot[item] = plan.n_moved[0]
            plan.n_moved[0] += 1
    else:
        plan.n_moved[0] -= 1
        other = plan.moved[plan.n_moved[0]]
        plan.moved[plan.moved_slot[item]] = other
        plan.moved_slot[other] = plan.moved_slot[item]
        plan.moved_slot[item] = -1


@inlined
def remove_visitor(item, node, plan):  # type: ignore[no-untyped-def]
    """Remove an item from a node's visitors; the last visitor gets its slot."""
    plan.n_visitors[node] -= 1
    last = plan.visitors[plan.begin[node] + plan.n_visitors[node]]
    plan.visitors[plan.begin[node] + plan.slot[item]] = last
    plan.slot[last] = plan.slot[item]
