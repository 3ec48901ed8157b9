"""Scale-in with and without integration (seed 000, 5.1, Figure 5), round by round.

Integrated: the solver gets the draining nodes and decides itself what each round's budget is for,
within a bound on the rounds that a drain may take (docs/adr/0035).
Apart: as in print, scale-in comes first as a process of its own that spreads the key groups of the
draining nodes evenly over the others, and balancing gets the budget once they are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.rebalance.cells import seed000_loads
from bench.simulator.cluster import Balancer, Cluster
from solvers import Budget
from solvers.drain import due_now
from solvers.problem import FloatArray, IntArray
from solvers.topology import that_must_move

NODES = 60
PER_NODE = 20
REMOVED = 10
MOVES = 20
MEAN_LOAD = 0.5
DRAIN_ROUNDS = 12
"""Ten are the fewest: ten nodes of 20 key groups, 20 moves a round. With ten, nothing is left for
balancing."""


@dataclass(frozen=True)
class Rounds:
    """The load distance in points after each round, and the round after which nothing is left."""

    distances: tuple[float, ...]
    drained_after: int | None

    def first_below(self, points: float) -> int | None:
        """The first round (from 1) from which on the distance stays below so many points."""
        for at in range(len(self.distances)):
            if max(self.distances[at:]) < points:
                return at + 1
        return None


def overloaded_cluster(seed: int, overloaded: int) -> tuple[Cluster, FloatArray]:
    """60 nodes, the first ten to be removed, and some of the others at 100 % load."""
    rng = np.random.default_rng(seed)
    current, load = seed000_loads(rng, NODES, PER_NODE, varies=20)
    load = load * (MEAN_LOAD * NODES / load.sum())
    for node in range(REMOVED, REMOVED + overloaded):
        mine = current == node
        load[mine] *= 1.0 / load[mine].sum()
    return Cluster(current, NODES, draining=range(REMOVED)), load


def run_integrated(cluster: Cluster, load: FloatArray, rounds: int, balance: Balancer) -> Rounds:
    budget = Budget(moves=MOVES)
    passed = 0

    def step() -> IntArray:
        nonlocal passed
        problem = cluster.problem(load, _bytes(load))
        drains = dict.fromkeys(problem.node_ids, passed)
        passed += 1
        due = due_now(problem, budget, drains, DRAIN_ROUNDS)
        return balance(that_must_move(problem, due), budget)

    return _run(cluster, load, rounds, step)


def run_apart(cluster: Cluster, load: FloatArray, rounds: int, balance: Balancer) -> Rounds:
    def step() -> IntArray:
        if cluster.draining_groups():
            return spread_draining(cluster, load, MOVES)
        return balance(cluster.problem(load, _bytes(load)), Budget(moves=MOVES))

    return _run(cluster, load, rounds, step)


def spread_draining(cluster: Cluster, load: FloatArray, moves: int) -> IntArray:
    """Largest first, each to the staying node that carries least."""
    plan = cluster.current.copy()
    sums = np.where(cluster.is_draining, np.inf, cluster.node_loads(load))
    leaving = np.flatnonzero(cluster.is_draining[plan])
    for k in leaving[np.argsort(-load[leaving], kind="stable")][:moves]:
        target = int(np.argmin(sums))
        plan[k] = target
        sums[target] += load[k]
    return plan


def _run(cluster: Cluster, load: FloatArray, rounds: int, step: Callable[[], IntArray]) -> Rounds:
    distances: list[float] = []
    drained_after: int | None = None
    for number in range(1, rounds + 1):
        cluster.follow(step(), _bytes(load))
        distances.append(cluster.load_distance_points(load))
        if drained_after is None and not cluster.draining_groups():
            drained_after = number
    return Rounds(tuple(distances), drained_after)


def _bytes(load: FloatArray) -> IntArray:
    return np.ones(len(load), dtype=np.int64)
