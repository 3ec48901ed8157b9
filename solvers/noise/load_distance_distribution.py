"""The distribution of the load distance that the next period will measure, in closed form.

The measured deviation of a node from the mean is its expected deviation plus noise. The noise of
a node is a sum over many key groups and windows, so it is close to normal. The load distance is
the largest absolute deviation of a node. Nodes are nearly independent, because key groups are:
the probability that the load distance is at most x is the product of the nodes' probabilities.

Two nodes that hold all load are not: what one has more the other has less. They have one variance,
and the node with less capacity deviates more, so it alone decides. A single node never deviates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr  # type: ignore[import-untyped]

from solvers.model import metrics
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem

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
    used = deciding_nodes(after, assignment)
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
    used = deciding_nodes(after, assignment)
    deviation = 100.0 * (metrics.node_loads(after, assignment) - metrics.mean_load(after))
    own = 100.0 * np.sqrt(node_variance(problem, assignment)) / problem.capacity
    return LoadDistanceDistribution(
        deviation[used], np.hypot(own, deviation * common_sd(problem))[used]
    )


def node_variance(problem: Problem, assignment: IntArray) -> FloatArray:
    """[N, R]: variance of the loads of nodes next period, without what all have in common."""
    if problem.noise is None:
        return np.zeros((problem.n_nodes, problem.n_resources))
    return variance_of_nodes(problem, assignment, problem.noise.variance)


def variance_of_nodes(problem: Problem, assignment: IntArray, variance: FloatArray) -> FloatArray:
    """[N, R]: variance of the loads of nodes, without what all have in common.

    Args:
        problem: its nodes.
        assignment: the node of each key group.
        variance: [G, R], that of the loads of key groups.
    """
    columns = [
        np.bincount(assignment, weights=column, minlength=problem.n_nodes) for column in variance.T
    ]
    found = np.stack(columns, axis=1).astype(np.float64)
    few = _only_nodes(problem, assignment)
    if len(few):
        found[few] = found[few].mean(axis=0) if len(few) > 1 else 0.0
    return found


def deciding_nodes(problem: Problem, assignment: IntArray) -> BoolArray:
    """[N, R]: nodes whose deviations decide about the load distance, in each balanced resource.

    All that stay; of two that hold all load the one with less capacity.
    """
    decides = problem.staying[:, None] & problem.balanced_mask & (metrics.mean_load(problem) > 0)
    few = _only_nodes(problem, assignment)
    if len(few) > 1:
        largest = few[np.argmax(problem.capacity[few], axis=0)]
        decides[largest, np.arange(problem.n_resources)] = False
    return np.asarray(decides)


def _only_nodes(problem: Problem, assignment: IntArray) -> IntArray:
    """The nodes that stay if they are one or two and hold all load; else none."""
    staying = np.flatnonzero(problem.staying)
    is_all = len(staying) <= 2 and bool(problem.staying[assignment].all())
    return staying if is_all else staying[:0]


def common_sd(problem: Problem) -> FloatArray:
    """[R]: relative standard deviation of the total load from this period to the next."""
    noise = problem.noise
    if noise is None or noise.common_period_sd is None:
        return np.zeros(problem.n_resources)
    return noise.common_period_sd
