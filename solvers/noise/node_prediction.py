"""What the next period will measure of nodes under an assignment: expected loads and their noise.

The deviations of nodes from the mean are estimates. Where those of the placement in force are no
larger than the noise, they are noise: a placement that was made level is still level, whatever a
few windows say, and the next period will not measure the same deviations again. So they are drawn
towards 0 by the share of them that is noise [James and Stein 1961; empirical Bayes with one
variance for all nodes]. What is drawn off a node is drawn off its key groups, each by its part in
the noise, and goes with them to other nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model import metrics
from solvers.model.noise import LoadNoise
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.noise.load_distance import LoadDistanceDistribution

PRIOR_NODES = 8.0
"""Weight of the prior beside the nodes of the problem."""
PRIOR_SPREAD = 3.0
"""Squared deviations of a placement in force, in units of their noise, before any is seen: 1 for
this period's noise, 1 for that of the period by which it was made level, 1 for what moved since."""


@dataclass(frozen=True, eq=False, slots=True)
class NodePrediction:
    """Loads of nodes over the next period, in the units of the loads."""

    expected: FloatArray  # [N, R]
    sd: FloatArray  # [N, R]
    """Without what all key groups have in common."""
    mean: FloatArray  # [R]
    """Mean load of the nodes that stay, per capacity."""

    def load_distance(self, problem: Problem) -> LoadDistanceDistribution:
        """The load distance in percent of the mean."""
        used = problem.staying[:, None] & problem.balanced_mask & (self.mean > 0)
        unit = np.where(self.mean > 0, self.mean, 1.0) * problem.capacity / problem.weights
        deviation = 100.0 * (self.expected - problem.capacity * self.mean) / unit
        return LoadDistanceDistribution(deviation[used], (100.0 * self.sd / unit)[used])

    def load_distance_points(self, problem: Problem) -> LoadDistanceDistribution:
        """The load distance in points of load."""
        used = problem.staying[:, None] & problem.balanced_mask & (self.mean > 0)
        deviation = 100.0 * (self.expected / problem.capacity - self.mean)
        sd = np.hypot(100.0 * self.sd / problem.capacity, deviation * _common(problem))
        return LoadDistanceDistribution(deviation[used], sd[used])

    def total_sd(self, problem: Problem) -> FloatArray:
        """[N, R]: standard deviation of the loads, with what all key groups have in common."""
        return np.hypot(self.sd, self.expected * _common(problem))


def _common(problem: Problem) -> FloatArray:
    """[R]: relative standard deviation of the total from this period to the next."""
    noise = problem.noise
    if noise is None or noise.common_period_sd is None:
        return np.zeros(problem.n_resources)
    return noise.common_period_sd


def predict_nodes(
    problem: Problem, assignment: IntArray, after: Problem | None = None
) -> NodePrediction:
    """Predict the loads of nodes over the next period.

    Args:
        problem: as it was measured, under the placement in force; its noise is that of the loads,
            and None counts as no noise.
        assignment: the node of each key group.
        after: the problem with loads as the plan changes them; ``problem`` if it does not.
    """
    after = after or problem
    expected = metrics.node_loads(after, assignment) * after.capacity
    variance = np.zeros_like(expected)
    noise, mean = problem.noise, metrics.mean_load(after)
    if noise is not None:
        for r in range(problem.n_resources):
            drawn, variance[:, r] = _drawn(problem, noise, assignment, r)
            expected[:, r] -= drawn
    return NodePrediction(np.maximum(expected, 0.0), np.sqrt(variance), mean)


def _drawn(
    problem: Problem, noise: LoadNoise, assignment: IntArray, r: int
) -> tuple[FloatArray, FloatArray]:
    """([N], [N]): what is drawn off each node's load, and the variance that is left."""
    nodes, current = problem.n_nodes, problem.current
    error = noise.error_variance[:, r]
    period = noise.variance[:, r] - error
    # Pairs of nodes: where a key group is, and where it will be.
    pairs, pair_of = np.unique(current * nodes + assignment, return_inverse=True)
    source, target = np.divmod(pairs, nodes)
    moved = np.bincount(pair_of, weights=error, minlength=len(pairs))
    by_source = np.bincount(source, weights=moved, minlength=nodes)
    share = np.divide(moved, by_source[source], out=np.zeros_like(moved), where=moved > 0)
    deviation, noise_share = _noise_share(problem, by_source, r)
    drawn = np.bincount(target, weights=noise_share * deviation[source] * share, minlength=nodes)
    left = np.bincount(target, weights=moved * (1.0 - noise_share * share), minlength=nodes)
    return drawn, left + np.bincount(assignment, weights=period, minlength=nodes)


def _noise_share(problem: Problem, variance: FloatArray, r: int) -> tuple[FloatArray, float]:
    """([N], share): deviations of the placement in force, and how much of them is noise."""
    load, capacity = problem.load[:, r], problem.capacity[:, r]
    sums = np.bincount(problem.current, weights=load, minlength=problem.n_nodes)
    mean = load.sum() / max(float(capacity[problem.staying].sum()), np.finfo(float).tiny)
    deviation = np.where(problem.staying, sums - capacity * mean, 0.0)
    noisy = problem.staying & (variance > 0)
    nodes = int(np.count_nonzero(noisy))
    if nodes < 2:
        return deviation, 0.0
    squared = float((deviation[noisy] ** 2 / variance[noisy]).sum())
    spread = (PRIOR_NODES * PRIOR_SPREAD + squared) / (PRIOR_NODES + nodes - 1)
    return deviation, 1.0 / max(1.0, spread)
