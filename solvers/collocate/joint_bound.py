"""Proven bounds of joint plans: of the load distance, and of the traffic within nodes.

Each bound holds for every plan within the budget and looks at its own figure alone. A plan that
trades one figure for the other may therefore be far from a bound and still be the best one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.collocate.lower_bound import most_local_rate
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.predicted_load import serialisation_costs
from solvers.model.problem import Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph, sum_by
from solvers.rebalance.bound import counting_bound, most_moves, overload_bound

ROUNDING = 1e-9
"""Relative margin of a bound for sums in another order."""


def load_distance_bound(problem: Problem, budget: Budget, costs: TrafficCosts) -> float:
    """Return a lower bound of the load distance, in percent of the mean.

    Without costs of serialisation the loads do not depend on the plan, and the bound is that of
    balance plans. With them a plan changes the loads. Then every key group counts with the load
    that it has if no record leaves its node: under a plan a node has at least this load, and the
    mean is at most what it is if every record leaves its node. So a node above that mean in every
    plan stays above it by a known part. That is a weak bound: it knows nothing of nodes with too
    little load, and it is 0 where serialisation is a large part of the load.
    """
    if not (any(costs.send) or any(costs.receive)):
        return counting_bound(problem, budget)
    graph = TrafficGraph.of(problem)
    base, send, receive = serialisation_costs(problem, graph, costs)
    rows, n = graph.rows(), graph.n_vertices
    out, into = sum_by(rows, graph.rate_out, n), sum_by(rows, graph.rate_in, n)
    most = out[:, None] * send + into[:, None] * receive
    local = replace(problem, load=base, noise=None)
    bound = 0.0
    for r in np.flatnonzero(problem.balanced_mask & (base.sum(axis=0) > 0)).tolist():
        rise = 1.0 + float(most[:, r].sum() / base[:, r].sum())
        above = (1.0 + overload_bound(local, budget, r)) / rise - 1.0
        bound = max(bound, float(problem.weights[r]) * above)
    return 100.0 * bound * (1.0 - ROUNDING)


def collocation_bound(problem: Problem, budget: Budget) -> float | None:
    """Return an upper bound of the traffic within nodes in percent; None without traffic.

    It ignores loads, caps and allowed nodes: these can only lower what a plan reaches.
    """
    if metrics.collocation_factor(problem, problem.current) is None:
        return None
    graph = TrafficGraph.of(problem)
    moves = most_moves(problem, budget) + int(metrics.forced_mask(problem).sum())
    rate = most_local_rate(problem, graph, moves)
    return min(100.0, 100.0 * rate / graph.total_rate * (1.0 + ROUNDING))
