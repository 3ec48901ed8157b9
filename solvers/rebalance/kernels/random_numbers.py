"""Random numbers of the compiled loops: xorshift64*, with the state in an array of one number."""

from __future__ import annotations

import numpy as np

from solvers.rebalance.kernels.compiled import inlined


@inlined
def random_below(state, bound):  # type: ignore[no-untyped-def]
    """A random whole number in [0, bound)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    mixed = (x * np.uint64(2685821657736338717)) >> np.uint64(33)
    return np.int64(mixed % np.uint64(bound))


@inlined
def random_unit(state):  # type: ignore[no-untyped-def]
    """A random number in [0, 1)."""
    return random_below(state, 2147483647) / 2147483647.0
