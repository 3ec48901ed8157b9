"""A first plan for one resource, built straight for a given load distance (compiled).

Overloaded nodes give away their largest key groups until they are inside the band; the largest of
those go to the nodes that lack most, in absolute load, so that large key groups meet large nodes;
what is still lacking comes from the nodes with most to spare. The search bisects the distance: the
least one that the budget pays for is where it starts.
"""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels import UNITS, compiled, put


@compiled
def push(heap, keys, size, node):  # type: ignore[no-untyped-def]
    """Put a node into a heap, largest key on top."""
    at = size
    heap[at] = node
    while at > 0:
        up = (at - 1) // 2
        if keys[heap[up]] >= keys[heap[at]]:
            break
        heap[up], heap[at] = heap[at], heap[up]
        at = up
    return size + 1


@compiled
def settle(heap, keys, size):  # type: ignore[no-untyped-def]
    """The key on top has become smaller: let it sink."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and keys[heap[child + 1]] > keys[heap[child]]:
            child += 1
        if keys[heap[child]] <= keys[heap[at]]:
            return
        heap[child], heap[at] = heap[at], heap[child]
        at = child


@compiled
def pop(heap, keys, size):  # type: ignore[no-untyped-def]
    heap[0] = heap[size - 1]
    settle(heap, keys, size - 1)
    return size - 1


@compiled
def largest_up_to(load, place, node, begin, end, most):  # type: ignore[no-untyped-def]
    """The largest item that is still at home on the node and no larger than that, or -1."""
    a, b = begin, end
    while a < b:
        middle = (a + b) // 2
        if load[middle, 0] <= most:
            a = middle + 1
        else:
            b = middle
    at = a - 1
    while at >= begin and place[at] != node:
        at -= 1
    return at if at >= begin else -1


@compiled
def affordable(item, used, cost, allowance):  # type: ignore[no-untyped-def]
    for u in range(UNITS):
        if used[u] + cost[item, u] > allowance[u]:
            return False
    return True


@compiled
def construct(  # type: ignore[no-untyped-def]
    distance,
    load, inverse, centre, limit, n_balanced, takes, limited, allowed_start, allowed_nodes,
    home, home_begin, cost, allowance,
    place, sums, visitors, begin, room, count, slot, used, moved, moved_slot, n_moved,
):  # fmt: skip
    """Whether the plan was built: every node within the distance, the budget kept.

    For one resource without caps or allowed nodes; starts from the state as it is given.
    """
    n_nodes = sums.shape[0]
    lowest, highest = np.zeros(n_nodes), np.zeros(n_nodes)
    leaving = np.empty(load.shape[0], dtype=np.int64)
    n_leaving = 0
    gone = np.zeros(n_nodes)
    for i in range(n_nodes):
        if inverse[i, 0] <= 0.0:
            continue
        fair = centre[i, 0] / inverse[i, 0]
        width = distance / inverse[i, 0]
        lowest[i], highest[i] = fair - width, fair + width
        at = home_begin[i + 1] - 1
        while sums[i, 0] - gone[i] > highest[i]:
            # The largest that does not take the node out of the band on the other side.
            while at >= home_begin[i] and (
                place[at] != i or sums[i, 0] - gone[i] - load[at, 0] < lowest[i]
            ):
                at -= 1
            if at < home_begin[i]:
                return False
            leaving[n_leaving] = at
            gone[i] += load[at, 0]
            n_leaving += 1
            at -= 1
            if n_leaving > allowance[0] - used[0]:
                return False
    order = np.argsort(-load[leaving[:n_leaving], 0])
    lack, headroom = np.zeros(n_nodes), np.zeros(n_nodes)
    needy, roomy = np.empty(n_nodes, dtype=np.int64), np.empty(n_nodes, dtype=np.int64)
    n_needy, n_roomy = 0, 0
    for i in range(n_nodes):
        lack[i] = lowest[i] - sums[i, 0] + gone[i]
        if takes[i] and lack[i] > 0.0:
            n_needy = push(needy, lack, n_needy, i)
    rest = np.empty(n_leaving, dtype=np.int64)
    n_rest = 0
    for at in range(n_leaving):
        item = leaving[order[at]]
        node = needy[0] if n_needy > 0 else -1
        if (
            node < 0
            or load[item, 0] > lack[node] + highest[node] - lowest[node]
            or count[node] >= room[node]
        ):
            rest[n_rest] = item
            n_rest += 1
            continue
        put(
            item, node, load, home, cost, place, sums, visitors, begin, count, slot, used,
            moved, moved_slot, n_moved,
        )  # fmt: skip
        lack[node] -= load[item, 0]
        if lack[node] > 0.0:
            settle(needy, lack, n_needy)
        else:
            n_needy = pop(needy, lack, n_needy)
    for i in range(n_nodes):
        # What an overloaded node still has to give does not count against its room.
        headroom[i] = lack[i] + highest[i] - lowest[i]
        if takes[i]:
            n_roomy = push(roomy, headroom, n_roomy, i)
    for at in range(n_rest):
        item = rest[at]
        node = roomy[0]
        if load[item, 0] > headroom[node] or node == home[item] or count[node] >= room[node]:
            return False
        put(
            item, node, load, home, cost, place, sums, visitors, begin, count, slot, used,
            moved, moved_slot, n_moved,
        )  # fmt: skip
        headroom[node] -= load[item, 0]
        settle(roomy, headroom, n_roomy)
    # Who is still short gets from whoever has most to spare.
    spare = np.zeros(n_nodes)
    givers = np.empty(n_nodes, dtype=np.int64)
    n_givers = 0
    n_needy = 0
    for i in range(n_nodes):
        spare[i] = sums[i, 0] - lowest[i]
        lack[i] = -spare[i]
        if takes[i] and lack[i] > 0.0:
            n_needy = push(needy, lack, n_needy, i)
        elif home_begin[i + 1] > home_begin[i]:
            n_givers = push(givers, spare, n_givers, i)
    while n_needy > 0:
        if n_givers == 0:
            return False
        node, giver = needy[0], givers[0]
        most = min(spare[giver], lack[node] + highest[node] - lowest[node])
        item = largest_up_to(load, place, giver, home_begin[giver], home_begin[giver + 1], most)
        if item < 0 or load[item, 0] <= 0.0:
            n_givers = pop(givers, spare, n_givers)
            continue
        if count[node] >= room[node] or not affordable(item, used, cost, allowance):
            return False
        put(
            item, node, load, home, cost, place, sums, visitors, begin, count, slot, used,
            moved, moved_slot, n_moved,
        )  # fmt: skip
        spare[giver] -= load[item, 0]
        settle(givers, spare, n_givers)
        lack[node] -= load[item, 0]
        if lack[node] > 0.0:
            settle(needy, lack, n_needy)
        else:
            n_needy = pop(needy, lack, n_needy)
    return used[0] <= allowance[0] and used[1] <= allowance[1] and used[2] <= allowance[2]
