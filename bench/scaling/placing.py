"""[AUTODASP17]'s methods and ours, each as a step from what the windows showed to an assignment.

ELB acts after every window and CLB after every m, as printed. Ours does either. It plans for the
level behind the counts (``estimate_level``), and every m windows also for the main components of
the load (``with_load_components``, ``over_windows``). It moves the least state that is enough
(``least_state_moved``). After each window it has moved at most what ELB alone has moved until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bench.simulator.cluster import SimulatedCluster
from solvers.model.budget import Budget
from solvers.model.problem import IntArray, Problem
from solvers.model.stop import Stop
from solvers.place import (
    clb,
    elb,
    estimate_level,
    least_state_moved,
    over_windows,
    with_load_components,
)

OURS, ROBUST = "ours", "ours, m windows"
ELB, CLB, PKG, UHLB = "ELB", "CLB", "PKG", "UHLB"
METHODS = (OURS, ROBUST, ELB, CLB, PKG, UHLB)
CLB_WINDOWS = 6
"""CLB's m; the number is not printed."""
WARM_UP = CLB_WINDOWS
"""Windows that everybody watches before the first plan."""
BAND = 0.2
"""u and v are so far from the mean: ELB's theta is at most a fifth of an instance's load."""
SPARE = 1.02
"""Of the mean load: what 2w / (u + v) rounds up from, so that the instances stay as many."""
WITHIN = 1.0
"""Percent that an instance may be off the mean before anything moves."""
LEVEL_WINDOWS = 12
"""Windows that the level is filtered from."""
SWING_WINDOWS = 60
"""Windows in which swings are looked for."""
HASH_PRIME = 2**31 - 1

Step = Callable[[Sequence[IntArray], IntArray], IntArray]
"""Records of each substream in the windows so far, and where substreams are; where they go."""


def step_of(method: str, instances: int, state_bytes: IntArray, seed: int) -> Step:
    if method == OURS:
        return _Ours(instances, state_bytes, seed).step
    if method == ROBUST:
        return _every(CLB_WINDOWS, _robust(instances, state_bytes, seed))
    if method == ELB:
        return _elb(instances)
    if method == CLB:
        return _every(CLB_WINDOWS, _clb(instances))
    return lambda _, assignment: assignment


def universal_hash(substreams: int, instances: int, seed: int) -> IntArray:
    """((a k + b) mod p) mod n: where everybody starts, and where UHLB stays."""
    rng = np.random.default_rng([seed, 7])
    a, b = int(rng.integers(1, HASH_PRIME)), int(rng.integers(0, HASH_PRIME))
    return np.array([(a * k + b) % HASH_PRIME % instances for k in range(substreams)])


def _elb(instances: int) -> Step:
    def step(windows: Sequence[IntArray], assignment: IntArray) -> IntArray:
        load = windows[-1].astype(np.float64)
        middle = SPARE * load.sum() / instances
        u, v = (1 + BAND) * middle, (1 - BAND) * middle
        return elb(load, assignment, instances, u, v, max_instances=instances).assignment

    return step


def _clb(instances: int) -> Step:
    def step(windows: Sequence[IntArray], assignment: IntArray) -> IntArray:
        return clb(np.array(windows[-CLB_WINDOWS:]).T, assignment, instances)

    return step


class _Ours:
    """After every window; the budget is the state that ELB has moved so far, less what ours has."""

    def __init__(self, instances: int, state_bytes: IntArray, seed: int) -> None:
        self.instances, self.state_bytes, self.seed = instances, state_bytes, seed
        self.elb = _elb(instances)
        self.elsewhere: IntArray | None = None
        self.left = 0

    def step(self, windows: Sequence[IntArray], assignment: IntArray) -> IntArray:
        before = assignment if self.elsewhere is None else self.elsewhere
        self.elsewhere = self.elb(windows, before)
        self.left += int(self.state_bytes[self.elsewhere != before].sum())
        problem = _problem(windows, assignment, self.instances, self.state_bytes)
        plan = least_state_moved(problem, WITHIN, Budget(bytes=self.left), Stop(steps=1), self.seed)
        self.left -= plan.bytes
        return plan.assignment.copy()


def _robust(instances: int, state_bytes: IntArray, seed: int) -> Step:
    def step(windows: Sequence[IntArray], assignment: IntArray) -> IntArray:
        problem = _problem(windows, assignment, instances, state_bytes)
        return least_state_moved(problem, WITHIN, Budget(), Stop(steps=1), seed).assignment.copy()

    return step


def _problem(
    windows: Sequence[IntArray], assignment: IntArray, instances: int, state_bytes: IntArray
) -> Problem:
    """The level alone; after every m windows also the swings that have shown so far."""
    level = estimate_level(np.array(windows[-LEVEL_WINDOWS:]).T)
    problem = SimulatedCluster(assignment, instances).problem(level, state_bytes)
    if len(windows) % CLB_WINDOWS:
        return problem
    swung = with_load_components(level, np.array(windows[-SWING_WINDOWS:]).T)
    return over_windows(problem, swung[:, None, :])


def _every(count: int, step: Step) -> Step:
    def only_then(windows: Sequence[IntArray], assignment: IntArray) -> IntArray:
        return assignment if len(windows) % count else step(windows, assignment)

    return only_then
