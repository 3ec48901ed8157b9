"""The distribution of the load distance that the next period will measure, in closed form.

The measured deviation of a node from the mean is its expected deviation plus noise. The noise of
a node is a sum over many key groups and windows, so it is close to normal. The load distance is
the largest absolute deviation of a node. Nodes are nearly independent, because key groups are:
the probability that the load distance is at most x is the product of the nodes' probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr  # type: ignore[import-untyped]

from solvers.model import metrics
from solvers.model.problem import FloatArray, IntArray, Problem

BISECTIONS = 60
SIGMAS = 12.0
"""No probability that matters lies further out."""


@dataclass(frozen=True, eq=False, slots=True)
class LoadDistanceDistribution:
    """The distribution of the largest absolute deviation of independent normal variables."""

    deviation: FloatArray
    """Expected deviations from the mean, in percent of the mean; one for each node and resource."""
    sd: FloatArray
    """Their standard deviations."""

    def probability(self, distance: float) -> float:
        """The probability that the load distance is at most ``distance``."""
        if distance < 0:
            return 0.0
        size = np.abs(self.deviation)
        if bool(np.any((self.sd <= 0) & (size > distance))):
            return 0.0
        noisy = self.sd > 0
        upper = (distance - size[noisy]) / self.sd[noisy]
        lower = (-distance - size[noisy]) / self.sd[noisy]
        share = np.maximum(ndtr(upper) - ndtr(lower), 0.0)
        with np.errstate(divide="ignore"):
            return float(np.exp(np.log(share).sum()))

    def quantile(self, probability: float) -> float:
        """The load distance that is not exceeded with this probability."""
        if not len(self.deviation):
            return 0.0
        size = np.abs(self.deviation)
        low, high = 0.0, float((size + SIGMAS * self.sd).max())
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            if self.probability(middle) < probability:
                low = middle
            else:
                high = middle
        return high

    @property
    def median(self) -> float:
        """The load distance that is as likely exceeded as not: the expected value of a promise."""
        return self.quantile(0.5)


def next_load_distance(
    problem: Problem, assignment: IntArray, after: Problem | None = None
) -> LoadDistanceDistribution:
    """The load distance that the next period will measure under an assignment.

    Args:
        problem: its noise is that of the loads; None counts as no noise.
        assignment: the node of each key group.
        after: the problem with loads as the plan changes them; ``problem`` if it does not.
    """
    after = after or problem
    used = problem.staying[:, None] & problem.balanced_mask & (metrics.mean_load(after) > 0)
    deviation = 100.0 * metrics.weighted_deviation(after, assignment)
    return LoadDistanceDistribution(deviation[used], node_sd(problem, assignment, after)[used])


def node_sd(problem: Problem, assignment: IntArray, after: Problem | None = None) -> FloatArray:
    """[N, R]: standard deviation of a node's deviation next period, in percent of the mean."""
    mean, sd = metrics.mean_load(after or problem), np.sqrt(node_variance(problem, assignment))
    scale = np.divide(problem.weights, mean, out=np.zeros_like(mean), where=mean > 0)
    return np.asarray(100.0 * sd * scale / problem.capacity)


def next_load_distance_points(
    problem: Problem, assignment: IntArray, after: Problem | None = None
) -> LoadDistanceDistribution:
    """The same in points of load, which contains what all key groups have in common."""
    after = after or problem
    mean = metrics.mean_load(after)
    used = problem.staying[:, None] & problem.balanced_mask & (mean > 0)
    loads = metrics.node_loads(after, assignment)
    deviation = 100.0 * (loads - mean)
    own = 100.0 * np.sqrt(node_variance(problem, assignment)) / problem.capacity
    return LoadDistanceDistribution(
        deviation[used], np.hypot(own, deviation * common_sd(problem))[used]
    )


def node_variance(problem: Problem, assignment: IntArray) -> FloatArray:
    """[N, R]: variance of the loads of nodes next period, without what all have in common."""
    if problem.noise is None:
        return np.zeros((problem.n_nodes, problem.n_resources))
    columns = [
        np.bincount(assignment, weights=column, minlength=problem.n_nodes)
        for column in problem.noise.variance.T
    ]
    return np.stack(columns, axis=1)


def common_sd(problem: Problem) -> FloatArray:
    """[R]: relative standard deviation of the total load from this period to the next."""
    noise = problem.noise
    if noise is None or noise.common_period_sd is None:
        return np.zeros(problem.n_resources)
    return noise.common_period_sd
