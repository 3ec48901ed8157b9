"""Scale-in with and without integration ([ICDE17, 5.1], Figure 5), round by round.

Integrated: Algorithm 1 (solvers/planner/round.py) with one budget for drain and balance, and a
bound on the rounds that a drain may take (ADR 35). The nodes to remove are given, as in the paper.
Apart: as in the paper, scale-in comes first as a process of its own that spreads the key groups of
the draining nodes evenly over the others; balancing gets the budget once they are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.rebalance.cells import icde17_loads
from bench.simulator.checked import checked
from bench.simulator.cluster import SimulatedCluster
from solvers.model.budget import Budget
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.result import Result
from solvers.planner.node_changes import NodeChangeRules
from solvers.planner.round import Allocate, ScalingRequest, plan_round
from solvers.scale import HotNode, ScalingAction, ScalingDecision

NODES = 60
PER_NODE = 20
REMOVED = 10
MOVES = 20
MEAN_LOAD = 0.5
DRAIN_ROUNDS = 12
"""Rounds for a drain. Ten are the fewest, for ten nodes of 20 key groups and 20 moves a round; with
ten, no move is left for balancing."""


@dataclass(frozen=True)
class DrainRounds:
    """The load distance in points after each round, the round after which nothing is left on the
    draining nodes, and the moves of each round."""

    distances: tuple[float, ...]
    drained_after: int | None
    moves: tuple[int, ...] = ()

    def area(self, until: int | None = None) -> float:
        """Points x rounds up to a round; by default until drained, or to the end if never
        drained."""
        return float(sum(self.distances[: until or self.drained_after]))

    def first_below(self, points: float) -> int | None:
        """The first round (from 1) from which on the distance stays below this number of points."""
        for at in range(len(self.distances)):
            if max(self.distances[at:]) < points:
                return at + 1
        return None


def overloaded_cluster(seed: int, overloaded: int) -> tuple[SimulatedCluster, FloatArray]:
    """60 nodes, the first ten to be removed, and some of the others at 100 % load."""
    rng = np.random.default_rng(seed)
    current, load = icde17_loads(rng, NODES, PER_NODE, varies=20)
    load = load * (MEAN_LOAD * NODES / load.sum())
    for node in range(REMOVED, REMOVED + overloaded):
        mine = current == node
        load[mine] *= 1.0 / load[mine].sum()
    return SimulatedCluster(current, NODES, draining=range(REMOVED)), load


def run_integrated(
    cluster: SimulatedCluster, load: FloatArray, rounds: int, allocate: Allocate
) -> DrainRounds:
    budget = Budget(moves=MOVES)
    drains: dict[str, int] = {}

    def step() -> IntArray:
        nonlocal drains
        plan = plan_round(
            cluster.problem(load, _bytes(load)),
            budget,
            allocate,
            ScalingRequest(
                no_scaling,
                drains=drains,
                rules=NodeChangeRules(max_drain_rounds=DRAIN_ROUNDS),
            ),
        )
        drains = dict(plan.drains)
        return _in_numbers(plan.problem, budget, plan.result, cluster)

    return _run(cluster, load, rounds, step)


def run_apart(
    cluster: SimulatedCluster, load: FloatArray, rounds: int, allocate: Allocate
) -> DrainRounds:
    budget = Budget(moves=MOVES)

    def step() -> IntArray:
        if cluster.draining_groups():
            return spread_draining(cluster, load, MOVES)
        problem = cluster.problem(load, _bytes(load))
        return _in_numbers(problem, budget, allocate(problem, budget).result, cluster)

    return _run(cluster, load, rounds, step)


def no_scaling(problem: Problem, _potential: Result, _hot: HotNode | None) -> ScalingDecision:
    """A decision without scaling: the nodes to remove are marked already."""
    count = {"": int(problem.staying.sum())}
    return ScalingDecision(
        ScalingAction.HOLD, count, count, "the nodes to remove are given", "", ""
    )


def _in_numbers(
    problem: Problem, budget: Budget, result: Result, cluster: SimulatedCluster
) -> IntArray:
    """The checked plan in node numbers of the cluster; ended nodes are not in the problem."""
    index = {name: i for i, name in enumerate(cluster.node_ids())}
    plan = checked(problem, budget, result)
    return np.array([index[plan[name]] for name in problem.key_group_ids], dtype=np.int64)


def spread_draining(cluster: SimulatedCluster, load: FloatArray, moves: int) -> IntArray:
    """Place key groups of draining nodes, the largest first, each on the least loaded staying
    node."""
    plan = cluster.current.copy()
    sums = np.where(cluster.is_draining, np.inf, cluster.node_loads(load))
    leaving = np.flatnonzero(cluster.is_draining[plan])
    for k in leaving[np.argsort(-load[leaving], kind="stable")][:moves]:
        target = int(np.argmin(sums))
        plan[k] = target
        sums[target] += load[k]
    return plan


def _run(
    cluster: SimulatedCluster, load: FloatArray, rounds: int, step: Callable[[], IntArray]
) -> DrainRounds:
    distances: list[float] = []
    moves: list[int] = []
    drained_after: int | None = None
    for number in range(1, rounds + 1):
        moves.append(cluster.follow(step(), _bytes(load)).moves)
        distances.append(cluster.load_distance_points(load))
        if drained_after is None and not cluster.draining_groups():
            drained_after = number
    return DrainRounds(tuple(distances), drained_after, tuple(moves))


def _bytes(load: FloatArray) -> IntArray:
    return np.ones(len(load), dtype=np.int64)
