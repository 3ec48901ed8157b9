"""Compiles the kernels, or loads them from numba's cache, before the clock of a solve starts.

:func:`main` fills the cache. ``make setup`` and the image call it once, so that a fresh process
only reads the cache. Without a cache the first solve of a process compiles, which takes about a
minute. That time is not part of the solve, and the result says so.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.rebalance.kernels.arrays import ALL_KINDS, AnnealingSchedule, BestPlan, SearchRule
from solvers.rebalance.search_arrays import Layout, plan_at

_ready: set[bool] = set()


def make_ready(several_resources: bool = False) -> tuple[float, bool]:
    """Load the kernels, or compile them if there is no cache.

    Only the first call of a process does something; later calls return (0, False).

    Args:
        several_resources: Also load the kernels for problems with several resources.

    Returns:
        The seconds that it took, and whether a kernel had to be compiled.
    """
    if several_resources in _ready or True in _ready:
        return 0.0, False
    began = time.monotonic()
    loops = _run_once(_tiny(), Budget(moves=1, bytes=10))
    if several_resources:
        loops += _run_pairing_once(_tiny(), Budget(moves=1, bytes=10))
    missed = any(sum(loop.stats.cache_misses.values()) for loop in loops)
    _ready.add(several_resources)
    return time.monotonic() - began, missed


def _run_once(problem: Problem, budget: Budget) -> list[Any]:
    """Call every loop for problems with one resource as a solve does, and return the loops."""
    from solvers.rebalance.bound import counting_bound
    from solvers.rebalance.kernels.annealing import anneal
    from solvers.rebalance.kernels.construction import construct
    from solvers.rebalance.kernels.deviation import worst_node
    from solvers.rebalance.kernels.distance_bound import count_events, largest_volume, least_cost
    from solvers.rebalance.kernels.finishing import drain, undo_moves
    from solvers.rebalance.kernels.polishing import PolishingPass, polish
    from solvers.rebalance.kernels.regrouping import regroup

    counting_bound(problem, budget)
    layout = Layout.of(problem, budget)
    fixed, plan = layout.fixed, plan_at(layout, layout.places_of(problem.current))
    random = np.array([1], dtype=np.uint64)
    best = BestPlan(plan.place.copy(), np.array([worst_node(fixed, plan)[0]]))
    polish(PolishingPass(1, 0.0, 1, True), np.zeros(2, dtype=bool), random, fixed, plan)
    schedule = AnnealingSchedule(1, ALL_KINDS, 1.0, 0.1)
    anneal(schedule, SearchRule(0.1, True), random, fixed, plan, best)
    regroup(schedule, SearchRule(0.1, True), random, fixed, plan, best)
    construct(0.5, fixed, plan)
    none = np.zeros(0, dtype=np.int64)
    undo_moves(0.0, none, fixed, plan)
    drain(0.0, none, fixed, plan)
    return [
        worst_node, polish, anneal, regroup, undo_moves, drain, construct,
        count_events, largest_volume, least_cost,
    ]  # fmt: skip


def _run_pairing_once(problem: Problem, budget: Budget) -> list[Any]:
    """Call the loop that only problems with several resources use, and return it."""
    from solvers.rebalance.kernels.pairing import PairingRound, pair_off

    layout = Layout.of(problem, budget)
    plan = plan_at(layout, layout.places_of(problem.current))
    random = np.array([1], dtype=np.uint64)
    pair_off(PairingRound(1, 0.1, 0.05), np.ones(2, dtype=bool), random, layout.fixed, plan)
    return [pair_off]


def _tiny() -> Problem:
    """The smallest problem that calls every kernel."""
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
