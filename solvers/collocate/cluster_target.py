"""Proposes a target: a placement of whole clusters that the next rounds move toward.

A budget of a few moves a round cannot bring a chain of operators together at once, and a search
that sees one round only scatters parts of it that are too heavy to join later. So whole clusters
(heavy edges, split to fit a node) are placed first, under the load bound and for the fewest
migrations (cluster_packing.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.collocate.cluster_packing import (
    ClusterCut,
    ClusterPacking,
    ClusterTarget,
)
from solvers.collocate.clusters import connected_sets, heavy_mask, split_to_fit
from solvers.model.budget import Budget
from solvers.model.predicted_load import predicted_load
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph

TIGHTER = 0.7
"""Share of the load bound that a target may use, because loads drift before it is reached."""
MOST_CHOICES = 5_000_000
"""Units times nodes. Above this no target is made, and the search follows the gain alone."""


@dataclass(frozen=True, slots=True)
class TargetParams:
    """Parameters of a target.

    Attributes:
        bound: Allowed load distance as a share of the mean.
        score_factor: An edge is heavy above this multiple of the average [ICDE17, 4.3.2].
        seed: Seed of the graph partitioning.
    """

    bound: float
    score_factor: float
    seed: int


def propose_target(
    problem: Problem,
    graph: TrafficGraph,
    costs: TrafficCosts,
    budget: Budget,
    assignment: IntArray,
    params: TargetParams,
) -> ClusterTarget | None:
    """Place all clusters within the load bound, for the fewest migrations from ``assignment``.

    Returns:
        The target; None without clusters, or with too many choices.
    """
    heavy = heavy_mask(problem, graph, params.score_factor)
    sets = connected_sets(graph.n_vertices, graph.rows()[heavy], graph.partner[heavy])
    clustered = sum(len(members) - 1 for members in sets)
    n_units = problem.n_key_groups - clustered
    if not sets or n_units * int(problem.staying.sum()) > MOST_CHOICES:
        return None
    joined = _one_node_per_set(problem, sets)
    shares = _mean_shares(problem, predicted_load(problem, graph, costs, joined))
    shares = shares[:, problem.balanced_mask]
    heaviest = shares.max(axis=1)
    tight = params.bound * TIGHTER
    clusters = [
        part
        for members in sets
        for part in split_to_fit(
            graph, members, heaviest[members], 1.0 + tight, params.seed, piece=1.0
        )
    ]
    packing = ClusterPacking(problem, budget, assignment, shares, tight)
    packing.pack(clusters)
    packing.cut_until_it_fits(ClusterCut(graph, heaviest, params.seed))
    return packing.target()


def _one_node_per_set(problem: Problem, sets: list[IntArray]) -> IntArray:
    """Return an assignment with every set on a node of its own: only its inner traffic is local."""
    assignment = np.arange(problem.n_key_groups) + len(sets)
    for i, members in enumerate(sets):
        assignment[members] = i
    return assignment


def _mean_shares(problem: Problem, load: FloatArray) -> FloatArray:
    """Return [key groups, resources]: loads in units of the mean load of a staying node."""
    mean = load.sum(axis=0) / max(1, int(problem.staying.sum()))
    shares: FloatArray = np.zeros_like(load)
    np.divide(load, mean, out=shares, where=mean > 0)
    return shares
