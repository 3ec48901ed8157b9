"""[AUTODASP17]'s methods and Ballast's, each as a step from the measured windows to an assignment.

ELB acts after every window and CLB after every m, as printed. Ballast's method does either. It
plans for the level without the noise of counts (``estimate_level``), and every m windows also for
the main components of the load (``with_load_components``, ``over_windows``). It moves the least
state that is enough (``least_state_moved``). After each window it has moved at most as much as ELB
alone has moved until then.
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
"""Windows before the first plan, for all methods."""
BAND = 0.2
"""Distance of u and v from the mean: ELB's theta is at most a fifth of an instance's load."""
SPARE = 1.02
"""Share of the mean load that keeps 2w / (u + v) from being rounded up to another instance."""
WITHIN = 1.0
"""Percent by which an instance may differ from the mean before anything moves."""
LEVEL_WINDOWS = 12
"""Windows from which the level is estimated."""
SWING_WINDOWS = 60
"""Windows from which load components are computed."""
HASH_PRIME = 2**31 - 1

Step = Callable[[Sequence[IntArray], IntArray], IntArray]
"""Takes the records of each substream in the windows so far, and the assignment; returns the new
assignment."""


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
    """((a k + b) mod p) mod n: the start of all methods; UHLB keeps it."""
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
    """Acts after every window. Its budget is the state that ELB has moved so far, minus its own
    moves."""

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
    """The problem of the level alone; after every m windows also of the load components so far."""
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
