"""Evidence that a plan is better than the placement in force, beyond the noise of the loads."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]

from solvers.model import metrics
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.noise.load_distance import LoadDistanceDistribution

LOOKS = 10
"""Rounds over which the chance of a plan from noise alone is held, as it is looked every round."""


@dataclass(frozen=True, slots=True)
class GainEvidence:
    """What the noise of the loads says of a plan's gain."""

    gain_pct: float
    """How far the placement in force is above what the plan will truly have, in percent of the
    mean, for the node with the most evidence."""
    noise_pct: float
    """The gain that noise alone reaches with the chance that the policy allows."""
    chance: float
    """The chance that the gain is not from noise."""
    is_real: bool
    windows_needed: int | None
    """Further windows after which this gain would be beyond the noise; 0 if it is, None if no
    number of windows would do."""
    text: str


def gain_evidence(
    problem: Problem, assignment: IntArray, min_chance: float, *, after: Problem | None = None
) -> GainEvidence:
    """Evidence that some node is truly further from the mean than it would be with a plan.

    Null hypothesis: no node is further from the mean than the level that the plan is expected to
    truly have. The largest of all nodes' statistics is compared with its distribution under
    this hypothesis, so that the choice among many plans costs nothing.

    Args:
        problem: its noise is that of the loads under the placement in force.
        assignment: the node of each key group under the plan.
        min_chance: chance that a plan is not from noise, over ``LOOKS`` rounds.
        after: the problem with loads as the plan changes them; ``problem`` if it does not.
    """
    noise = problem.noise
    if noise is None:
        return GainEvidence(0.0, 0.0, 1.0, True, 0, "the noise of the loads is not known")
    level = _true_distance(after or problem, assignment, noise.error_variance).median
    now = _true_distance(problem, problem.current, noise.error_variance)
    gains = np.abs(now.deviation) - level
    if not len(gains) or gains.max() <= 0:
        text = f"every node is within the {level:.1f} % of the mean that a plan would have"
        return GainEvidence(float(gains.max(initial=-level)), 0.0, 0.0, False, None, text)
    allowed = (1.0 - min_chance) / LOOKS
    limit = float(-ndtri(-math.expm1(math.log1p(-allowed) / len(gains)) / 2))
    with np.errstate(divide="ignore"):
        scores = np.where(
            now.sd > 0, gains / np.where(now.sd > 0, now.sd, 1.0), np.sign(gains) * np.inf
        )
    best = int(np.argmax(scores))
    score, gain, sd = float(scores[best]), float(gains[best]), float(now.sd[best])
    by_noise = -math.expm1(len(gains) * math.log1p(-min(1 - 1e-16, 2 * float(ndtr(-score)))))
    chance = max(0.0, 1.0 - LOOKS * by_noise)
    needed = max(0, math.ceil(noise.windows * ((limit / score) ** 2 - 1))) if score > 0 else None
    is_real = score >= limit
    text = _text(gain, limit * sd, noise.windows, 0 if is_real else needed)
    return GainEvidence(gain, limit * sd, chance, is_real, 0 if is_real else needed, text)


def _true_distance(
    problem: Problem, assignment: IntArray, variance: FloatArray
) -> LoadDistanceDistribution:
    """The true load distance under an assignment, given the estimated loads."""
    used = problem.staying[:, None] & problem.balanced_mask & (metrics.mean_load(problem) > 0)
    deviation = 100.0 * metrics.weighted_deviation(problem, assignment)
    sd = np.zeros_like(deviation)
    mean = metrics.mean_load(problem)
    for r in np.flatnonzero(mean > 0):
        sums = np.bincount(assignment, weights=variance[:, r], minlength=problem.n_nodes)
        sd[:, r] = 100 * np.sqrt(sums) * problem.weights[r] / (problem.capacity[:, r] * mean[r])
    return LoadDistanceDistribution(deviation[used], sd[used])


def _text(gain: float, noise: float, windows: int, needed: int | None) -> str:
    """The comparison in a sentence."""
    if needed == 0:
        return (
            f"the difference of {gain:.1f} points is beyond the noise of {noise:.1f} of these "
            f"{windows} windows"
        )
    within = (
        f"the difference of {gain:.1f} points is within the noise of {noise:.1f} of these "
        f"{windows} windows"
    )
    return within if needed is None else f"{within}; {needed} more windows would tell"
