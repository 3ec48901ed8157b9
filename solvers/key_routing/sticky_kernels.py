"""The inner loops of the sticky search, compiled by numba and cached (docs/adr/0014).

Each function works on the keys of one stage while the other stage is fixed. Load has several
views (columns). It is given as a share of what a server may have in that view, so a server keeps
the bound if none of its shares is above 1.
"""

from __future__ import annotations

from typing import NamedTuple

from solvers.model.problem import FloatArray, IntArray
from solvers.rebalance.kernels.compiled import compiled

SMALLEST_GAIN = 1e-9


class StageArrays(NamedTuple):
    """The keys of one stage. The kernels change ``here`` and ``load`` in place.

    Attributes:
        values: [keys, servers] Worth of having a key on a server.
        here: [keys] Server of each key.
        weight: [keys, views] Share of a server's bound that a key takes.
        load: [servers, views] Share of the bound that a server has.
    """

    values: FloatArray
    here: IntArray
    weight: FloatArray
    load: FloatArray


@compiled
def put(stage, key, server):  # type: ignore[no-untyped-def]
    """Move a key to a server."""
    old = stage.here[key]
    for view in range(stage.weight.shape[1]):
        stage.load[old, view] -= stage.weight[key, view]
        stage.load[server, view] += stage.weight[key, view]
    stage.here[key] = server


@compiled
def fits(stage, server, key, leaving):  # type: ignore[no-untyped-def]
    """Return whether a server keeps the bound, or gets no fuller, when a key replaces another.

    ``leaving`` is the key that leaves, or -1.
    """
    for view in range(stage.weight.shape[1]):
        change = stage.weight[key, view]
        if leaving >= 0:
            change -= stage.weight[leaving, view]
        if change > 0 and stage.load[server, view] + change > 1.0:
            return False
    return True


@compiled
def fullest(stage, server, coming, leaving):  # type: ignore[no-untyped-def]
    """Return the largest share of a server when a key comes and another leaves (-1: none)."""
    most = 0.0
    for view in range(stage.weight.shape[1]):
        share = stage.load[server, view]
        if coming >= 0:
            share += stage.weight[coming, view]
        if leaving >= 0:
            share -= stage.weight[leaving, view]
        most = max(most, share)
    return most


@compiled
def best_partner(stage, key, server, better):  # type: ignore[no-untyped-def]
    """Return the key on ``server`` to swap with ``key``, or -1 if no swap gains.

    ``better`` is what ``key`` gains by the swap.
    """
    old = stage.here[key]
    most, partner = SMALLEST_GAIN, -1
    for other in range(len(stage.here)):
        if stage.here[other] != server:
            continue
        gain = better + stage.values[other, old] - stage.values[other, server]
        if gain > most and fits(stage, server, key, other) and fits(stage, old, other, key):
            most, partner = gain, other
    return partner


@compiled
def improve(stage, keys, servers, swaps_left):  # type: ignore[no-untyped-def]
    """Move ``keys`` to ``servers`` in order, where there is room or a swap gains.

    At most ``swaps_left`` swaps are tried. Returns whether a key moved.
    """
    changed = False
    for i in range(len(keys)):
        key, server = keys[i], servers[i]
        better = stage.values[key, server] - stage.values[key, stage.here[key]]
        if better <= SMALLEST_GAIN:
            continue
        if fits(stage, server, key, -1):
            put(stage, key, server)
            changed = True
        elif swaps_left > 0:
            swaps_left -= 1
            other = best_partner(stage, key, server, better)
            if other >= 0:
                put(stage, other, stage.here[key])
                put(stage, key, server)
                changed = True
    return changed


@compiled
def shed(stage, source, members):  # type: ignore[no-untyped-def]
    """Move keys off a server in the given order until it keeps the bound.

    Each key goes to the best server with room. Returns whether a key moved.
    """
    changed = False
    for key in members:
        if fullest(stage, source, -1, -1) <= 1.0:
            break
        best = -1
        for server in range(stage.values.shape[1]):
            if (
                server != source
                and (best < 0 or stage.values[key, server] > stage.values[key, best])
                and fits(stage, server, key, -1)
            ):
                best = server
        if best >= 0:
            put(stage, key, best)
            changed = True
    return changed


@compiled
def relief(stage, source, target, key, back, share):  # type: ignore[no-untyped-def]
    """Return by how much the excess of ``source`` falls if a key leaves it for ``target``.

    ``back`` is a key that comes in exchange, or -1; ``share`` is the largest share of ``source``.
    """
    there = fullest(stage, target, key, back)
    if there >= share:
        return 0.0
    after = max(there, fullest(stage, source, back, key))
    return share - max(1.0, after)


@compiled
def cheapest_exit(stage, source, swaps):  # type: ignore[no-untyped-def]
    """Return (key, server, key in exchange or -1): the least loss for the relief it gives."""
    share = fullest(stage, source, -1, -1)
    n_keys, n_servers = stage.values.shape
    least, key, server, back = 0.0, -1, -1, -1
    for v in range(n_keys):
        if stage.here[v] != source:
            continue
        for other in range(n_keys if swaps else n_servers):
            target = stage.here[other] if swaps else other
            if target == source:
                continue
            coming = other if swaps else -1
            eased = relief(stage, source, target, v, coming, share)
            if eased <= SMALLEST_GAIN:
                continue
            loss = stage.values[v, source] - stage.values[v, target]
            if swaps:
                loss += stage.values[other, target] - stage.values[other, source]
            # A move that gains comes first, the largest gain before the others.
            cost = loss / eased if loss > 0 else loss
            if key < 0 or cost < least:
                least, key, server, back = cost, v, target, coming
    return key, server, back


@compiled
def ease(stage, work_left):  # type: ignore[no-untyped-def]
    """Move keys off servers above the bound, the fullest first; swap where no move helps.

    A key may go to a server that is then above the bound, if it is less so than the old one was.
    ``work_left[0]`` is how many moves and swaps may still be examined. Returns whether a key moved.
    """
    changed = False
    n_keys, n_servers = stage.values.shape
    while True:
        source, share = -1, 1.0 + SMALLEST_GAIN
        for server in range(n_servers):
            full = fullest(stage, server, -1, -1)
            if full > share:
                source, share = server, full
        if source < 0 or work_left[0] < 0:
            return changed
        work_left[0] -= n_keys * n_servers
        key, server, back = cheapest_exit(stage, source, False)
        if key < 0:
            work_left[0] -= n_keys * (stage.here == source).sum()
            if work_left[0] < 0:
                return changed
            key, server, back = cheapest_exit(stage, source, True)
            if key < 0:
                return changed
        put(stage, key, server)
        if back >= 0:
            put(stage, back, source)
        changed = True
