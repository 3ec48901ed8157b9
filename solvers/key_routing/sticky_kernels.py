"""The inner loops of the sticky search, compiled by numba and kept in its cache (docs/adr/0014).

All of them work on one stage with the other one held: ``values[key, server]`` is the worth of
having a key on a server, ``here`` is where each key is. Load is seen in several views (columns):
``weight[key, view]`` and ``load[server, view]`` are in shares of what a server may have in that
view, so that a server keeps the bound if none of its numbers is above 1.
"""

from __future__ import annotations

from solvers.rebalance.kernels import compiled

SMALLEST_GAIN = 1e-9


@compiled
def put(key, server, here, weight, load):  # type: ignore[no-untyped-def]
    for view in range(weight.shape[1]):
        load[here[key], view] -= weight[key, view]
        load[server, view] += weight[key, view]
    here[key] = server


@compiled
def fits(server, key, leaving, weight, load):  # type: ignore[no-untyped-def]
    """Whether a server keeps the bound, or is no fuller, when a key comes and another leaves."""
    for view in range(weight.shape[1]):
        change = weight[key, view]
        if leaving >= 0:
            change -= weight[leaving, view]
        if change > 0 and load[server, view] + change > 1.0:
            return False
    return True


@compiled
def fullest(server, coming, leaving, weight, load):  # type: ignore[no-untyped-def]
    """The largest share of a server when a key comes and another leaves (-1: none)."""
    most = 0.0
    for view in range(weight.shape[1]):
        share = load[server, view]
        if coming >= 0:
            share += weight[coming, view]
        if leaving >= 0:
            share -= weight[leaving, view]
        most = max(most, share)
    return most


@compiled
def best_partner(key, server, better, values, here, weight, load):  # type: ignore[no-untyped-def]
    """The key that should leave ``server`` for where ``key`` is, or -1 if no swap gains."""
    old = here[key]
    most, found = SMALLEST_GAIN, -1
    for other in range(len(here)):
        if here[other] != server:
            continue
        gain = better + values[other, old] - values[other, server]
        if (
            gain > most
            and fits(server, key, other, weight, load)
            and fits(old, other, key, weight, load)
        ):
            most, found = gain, other
    return found


@compiled
def improve(values, here, weight, load, keys, servers, swaps_left):  # type: ignore[no-untyped-def]
    """Move ``keys`` to ``servers`` in order, where there is room or a swap pays."""
    changed = False
    for i in range(len(keys)):
        key, server = keys[i], servers[i]
        better = values[key, server] - values[key, here[key]]
        if better <= SMALLEST_GAIN:
            continue
        if fits(server, key, -1, weight, load):
            put(key, server, here, weight, load)
            changed = True
        elif swaps_left > 0:
            swaps_left -= 1
            other = best_partner(key, server, better, values, here, weight, load)
            if other >= 0:
                put(other, here[key], here, weight, load)
                put(key, server, here, weight, load)
                changed = True
    return changed


@compiled
def shed(source, members, values, here, weight, load):  # type: ignore[no-untyped-def]
    """Keys leave a server in the given order, each for the best one that has room."""
    changed = False
    for key in members:
        if fullest(source, -1, -1, weight, load) <= 1.0:
            break
        best = -1
        for server in range(values.shape[1]):
            if (
                server != source
                and (best < 0 or values[key, server] > values[key, best])
                and fits(server, key, -1, weight, load)
            ):
                best = server
        if best >= 0:
            put(key, best, here, weight, load)
            changed = True
    return changed


@compiled
def relief(source, target, key, back, weight, load, share):  # type: ignore[no-untyped-def]
    """What of a server's share above the bound goes away if a key leaves it for another one."""
    there = fullest(target, key, back, weight, load)
    if there >= share:
        return 0.0
    after = max(there, fullest(source, back, key, weight, load))
    return share - max(1.0, after)


@compiled
def cheapest_exit(source, swaps, values, here, weight, load):  # type: ignore[no-untyped-def]
    """(key, server, key that comes back or -1): what costs least for the relief it gives."""
    share = fullest(source, -1, -1, weight, load)
    n_keys, n_servers = values.shape
    least, key, server, back = 0.0, -1, -1, -1
    for v in range(n_keys):
        if here[v] != source:
            continue
        for other in range(n_keys if swaps else n_servers):
            target = here[other] if swaps else other
            if target == source:
                continue
            coming = other if swaps else -1
            eased = relief(source, target, v, coming, weight, load, share)
            if eased <= SMALLEST_GAIN:
                continue
            loss = values[v, source] - values[v, target]
            if swaps:
                loss += values[other, target] - values[other, source]
            # What gains is taken first, and the more the better.
            cost = loss / eased if loss > 0 else loss
            if key < 0 or cost < least:
                least, key, server, back = cost, v, target, coming
    return key, server, back


@compiled
def ease(values, here, weight, load, work_left):  # type: ignore[no-untyped-def]
    """Servers above the bound give keys away, the fullest first; swaps where no move eases it.

    Here a key may also go to a server that is above the bound then, if it is less so.
    ``work_left[0]`` is how many moves and swaps may still be looked at.
    """
    changed = False
    n_keys, n_servers = values.shape
    while True:
        source, share = -1, 1.0 + SMALLEST_GAIN
        for server in range(n_servers):
            full = fullest(server, -1, -1, weight, load)
            if full > share:
                source, share = server, full
        if source < 0 or work_left[0] < 0:
            return changed
        work_left[0] -= n_keys * n_servers
        key, server, back = cheapest_exit(source, False, values, here, weight, load)
        if key < 0:
            work_left[0] -= n_keys * (here == source).sum()
            if work_left[0] < 0:
                return changed
            key, server, back = cheapest_exit(source, True, values, here, weight, load)
            if key < 0:
                return changed
        put(key, server, here, weight, load)
        if back >= 0:
            put(back, source, here, weight, load)
        changed = True
