"""Evidence that a plan is better than the placement in force, beyond the noise of the loads."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student  # type: ignore[import-untyped]

from solvers.model import metrics
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.noise.load_distance import LoadDistanceDistribution

LOOKS = 10
"""Rounds over which the chance of a plan from noise alone is held, as it is looked every round."""
FREEDOM = 30
"""Degrees of freedom of the limit: the noise is an estimate itself."""
MOST_PERIODS = 1000
"""A difference that this many periods would not tell from noise is none."""


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
    """Further windows in the period after which this gain would be beyond the noise; 0 if it is,
    None if no number of windows would do."""
    text: str


def gain_evidence(
    problem: Problem, assignment: IntArray, min_chance: float, *, after: Problem | None = None
) -> GainEvidence:
    """Evidence that some node is truly further from the mean than it would be with a plan.

    Null hypothesis: no node is further from the mean than the load distance that the plan is
    expected to truly have. The largest of all nodes' statistics is compared with its
    distribution under this hypothesis, so that the choice among many plans costs nothing.

    Args:
        problem: as it was measured; its noise is that of the loads.
        assignment: the node of each key group under the plan.
        min_chance: chance that a plan is not from noise, over ``LOOKS`` rounds.
        after: the problem with loads as the plan changes them; ``problem`` if it does not.

    Returns:
        The evidence. Where the noise is not known, every gain counts as real.
    """
    noise = problem.noise
    if noise is None:
        return GainEvidence(0.0, 0.0, 1.0, True, 0, "the noise of the loads is not known")
    question = _Question(
        _true_load_distance(problem, problem.current, noise.error_variance),
        _true_load_distance(after or problem, assignment, noise.error_variance),
    )
    if not len(question.now.deviation):
        return GainEvidence(0.0, 0.0, 0.0, False, None, "no node has a load to level")
    gain, sd = question.strongest(1.0)
    limit = _limit(len(question.now.deviation), min_chance)
    is_real = gain > 0 and gain >= limit * sd
    needed = 0 if is_real else question.windows_needed(limit, noise.windows)
    text = _text(gain, limit * sd, noise.windows, needed, is_real=is_real)
    chance = _chance(gain, sd, len(question.now.deviation))
    return GainEvidence(gain, limit * sd, chance, is_real, needed, text)


@dataclass(frozen=True, eq=False, slots=True)
class _Question:
    """The true load distance now and under the plan, given the estimated loads."""

    now: LoadDistanceDistribution
    planned: LoadDistanceDistribution

    def strongest(self, periods: float) -> tuple[float, float]:
        """(gain, its standard deviation) of the node with the most evidence.

        ``periods`` multiplies the windows, with deviations as they are now.
        """
        shrink = 1.0 / math.sqrt(periods)
        planned = LoadDistanceDistribution(self.planned.deviation, self.planned.sd * shrink)
        gains = np.abs(self.now.deviation) - planned.median
        sd = self.now.sd * shrink
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(sd > 0, gains / sd, np.where(gains > 0, np.inf, -np.inf))
        best = int(np.argmax(scores))
        return float(gains[best]), float(sd[best])

    def windows_needed(self, limit: float, windows: int) -> int | None:
        """Further windows until the gain reaches the limit; None if it never does."""
        if not self._is_told(MOST_PERIODS, limit):
            return None
        low, high = windows, MOST_PERIODS * windows
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_told(middle / windows, limit):
                high = middle
            else:
                low = middle
        return high - windows

    def _is_told(self, periods: float, limit: float) -> bool:
        gain, sd = self.strongest(periods)
        return gain > 0 and gain >= limit * sd


def _limit(count: int, min_chance: float) -> float:
    """The largest of so many independent statistics that noise alone reaches."""
    allowed = (1.0 - min_chance) / LOOKS
    each = -math.expm1(math.log1p(-allowed) / count)
    return float(student.isf(each / 2, FREEDOM))


def _chance(gain: float, sd: float, count: int) -> float:
    """The chance that noise alone does not reach the gain in any of the looks."""
    if gain <= 0:
        return 0.0
    each = 2 * float(student.sf(gain / sd, FREEDOM)) if sd > 0 else 0.0
    by_noise = -math.expm1(count * math.log1p(-min(each, 1 - 1e-12)))
    return max(0.0, 1.0 - LOOKS * by_noise)


def _true_load_distance(
    problem: Problem, assignment: IntArray, variance: FloatArray
) -> LoadDistanceDistribution:
    """The true load distance under an assignment, given the estimated loads."""
    mean = metrics.mean_load(problem)
    used = problem.staying[:, None] & problem.balanced_mask & (mean > 0)
    deviation = 100.0 * metrics.weighted_deviation(problem, assignment)
    sd = np.zeros_like(deviation)
    for r in np.flatnonzero(mean > 0):
        sums = np.bincount(assignment, weights=variance[:, r], minlength=problem.n_nodes)
        unit = problem.capacity[:, r] * mean[r] / problem.weights[r]
        sd[:, r] = 100.0 * np.sqrt(sums) / unit
    return LoadDistanceDistribution(deviation[used], sd[used])


def _text(gain: float, noise: float, windows: int, needed: int | None, *, is_real: bool) -> str:
    """The comparison in a sentence."""
    relation = "beyond" if is_real else "within"
    text = (
        f"the difference of {max(gain, 0.0):.1f} points is {relation} the noise of {noise:.1f} of "
        f"these {windows} windows"
    )
    return f"{text}; {needed} more windows would tell" if needed else text
