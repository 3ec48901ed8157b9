"""The inner loops of the sticky search, compiled by numba and kept in its cache (docs/adr/0014).

All of them work on one stage with the other one held: ``values[key, server]`` is the worth of
having a key on a server, ``here`` is where each key is, ``load`` the records of each server.
"""

from __future__ import annotations

from solvers.rebalance.kernels import compiled

SMALLEST_GAIN = 1e-9


@compiled
def put(key, server, here, weight, load):  # type: ignore[no-untyped-def]
    load[here[key]] -= weight[key]
    load[server] += weight[key]
    here[key] = server


@compiled
def best_partner(key, server, better, values, here, weight, load, cap):  # type: ignore[no-untyped-def]
    """The key that should leave ``server`` for where ``key`` is, or -1 if no swap gains."""
    old = here[key]
    most, found = SMALLEST_GAIN, -1
    for other in range(len(here)):
        if here[other] != server:
            continue
        change = weight[key] - weight[other]
        gain = better + values[other, old] - values[other, server]
        if (
            gain > most
            and load[server] + change <= cap
            and load[old] - change <= max(cap, load[old])
        ):
            most, found = gain, other
    return found


@compiled
def improve(values, here, weight, load, cap, keys, servers, swaps_left):  # type: ignore[no-untyped-def]
    """Follow the wishes (``keys`` to ``servers``) in order, where there is room or a swap pays."""
    changed = False
    for wish in range(len(keys)):
        key, server = keys[wish], servers[wish]
        better = values[key, server] - values[key, here[key]]
        if better <= SMALLEST_GAIN:
            continue
        if load[server] + weight[key] <= cap:
            put(key, server, here, weight, load)
            changed = True
        elif swaps_left > 0:
            swaps_left -= 1
            other = best_partner(key, server, better, values, here, weight, load, cap)
            if other >= 0:
                put(other, here[key], here, weight, load)
                put(key, server, here, weight, load)
                changed = True
    return changed
