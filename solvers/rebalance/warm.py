"""Compiled loops made ready before a clock runs: read from numba's cache, or compiled.

:func:`main` fills the cache; ``make setup`` and the image do that once, so that a fresh process
only reads it. Without a cache the first solve of a process compiles, which takes about half a
minute; it is not counted as solving, and the result says so.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from solvers.model.budget import Budget
from solvers.model.problem import Problem

_ready: set[bool] = set()


def make_ready(several_resources: bool = False) -> tuple[float, bool]:
    """(seconds it took, whether anything had to be compiled); (0, False) but for the first time."""
    if several_resources in _ready or True in _ready:
        return 0.0, False
    began = time.monotonic()
    from solvers.rebalance import bound_kernels, kernels
    from solvers.rebalance.bound import counting_bound
    from solvers.rebalance.construct import construct
    from solvers.rebalance.layout import Layout, State

    problem, budget = _tiny(), Budget(moves=1, bytes=10)
    counting_bound(problem, budget)
    layout = Layout.of(problem, budget)
    state = State(layout, layout.places_of(problem.current))
    fixed = layout.arrays()
    random = np.array([1], dtype=np.uint64)
    best = np.array([kernels.worst_node(state.sums, layout.inverse, layout.centre, 1)[0]])
    kernels.polish(1, 0.0, 1, True, random, *fixed, *state.arrays(), np.zeros(2, dtype=bool))
    kernels.anneal(
        1,
        kernels.ALL_KINDS,
        0.1,
        1.0,
        0.1,
        True,
        random,
        *fixed,
        *state.arrays(),
        state.place.copy(),
        best,
    )
    construct(0.5, *fixed, *state.arrays())
    none = np.zeros(0, dtype=np.int64)
    kernels.send_home(0.0, none, *fixed, *state.arrays())
    kernels.drain(0.0, none, *fixed, *state.arrays())
    loops = [
        kernels.worst_node, kernels.polish, kernels.anneal, kernels.send_home, kernels.drain,
        construct,
        bound_kernels.count_events, bound_kernels.largest_volume, bound_kernels.least_cost,
    ]  # fmt: skip
    if several_resources:
        from solvers.rebalance.pairs import pair_off

        pair_off(
            1, 0.1, 0.05, np.ones(2, dtype=bool), random, *fixed, *state.arrays()
        )  # fmt: skip
        loops.append(pair_off)
    missed = any(sum(loop.stats.cache_misses.values()) for loop in loops)
    _ready.add(several_resources)
    return time.monotonic() - began, missed


def _tiny() -> Problem:
    return Problem(
        node_ids=("a", "b"),
        resources=("load",),
        capacity=np.ones((2, 1)),
        node_state=("alive", "alive"),
        key_group_ids=("1", "2", "3"),
        operator_ids=("o",) * 3,
        load=np.array([[3.0], [2.0], [1.0]]),
        state_bytes=np.array([1, 1, 1]),
        current=np.array([0, 0, 0]),
    )


def main() -> int:
    seconds, compiled = make_ready(several_resources=True)
    print(f"{'compiled' if compiled else 'read from the cache'} in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
