"""Factors on the width of intervals, learned from the outcomes of earlier promises of a job.

The score of an outcome is its distance from the expected value, divided by the distance between the
expected value and the end of the interval by the noise model alone. The factor of a side is the
quantile of the scores with which the right share of outcomes would have been outside [split
conformal prediction]. Pseudo-observations, a fifth wider than the noise model says, are added to
the outcomes, so that few outcomes change little. Outcomes of one measurement, such as the loads of
all nodes, are correlated, so that together they count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student  # type: ignore[import-untyped]

from solvers.model.problem import FloatArray

FREEDOM = 10
"""Degrees of freedom of the ends: standard deviations are estimates themselves, and loads have
heavier tails than the normal distribution."""
OUTSIDE_EACH_SIDE = 0.05
"""Share of outcomes that a 90 % interval leaves outside at each end."""
PSEUDO_OBSERVATIONS = 25
PSEUDO_WIDTH = 1.2
"""Width of the intervals without outcomes, over that of the noise model: of recorded and generated
loads the model alone leaves more outside than it should."""
OUTCOMES_USED = 100
"""The newest measurements that count."""
NARROWEST, WIDEST = 0.25, 4.0
ROUNDING = 1e-9
"""Relative: sums of equal weights differ by less."""


@dataclass(frozen=True, slots=True)
class PastOutcome:
    """A promise and what was measured first for its version."""

    expected: float
    low: float
    high: float
    """The 90 % interval as it was promised."""
    below: float
    above: float
    """The factors that were in it."""
    measured: float
    weight: float = 1.0
    """Above 0; outcomes of one figure and measurement have a total weight of 1."""

    @property
    def score(self) -> float | None:
        """Distance from the expected value in units of the noise model; None without noise."""
        if self.measured >= self.expected:
            unit = (self.high - self.expected) / self.above
        else:
            unit = (self.expected - self.low) / self.below
        return (self.measured - self.expected) / unit if unit > 0 else None


@dataclass(frozen=True, slots=True)
class IntervalFactors:
    """Factors on the distances between the expected value and the ends of an interval."""

    below: float = 1.0
    above: float = 1.0


def interval_factors(outcomes: Sequence[PastOutcome]) -> IntervalFactors:
    """The factors that follow from earlier outcomes of a figure.

    Args:
        outcomes: the first outcome of each version, oldest first; only those with an interval.
    """
    known = [(each.score, each.weight) for each in _newest(outcomes)]
    scores = np.array([score for score, _ in known if score is not None])
    if not len(scores):
        return IntervalFactors(PSEUDO_WIDTH, PSEUDO_WIDTH)
    weights = np.array([weight for score, weight in known if score is not None])
    pooled = np.concatenate((_pseudo_scores(), scores))
    pooled_weights = np.concatenate((np.ones(PSEUDO_OBSERVATIONS), weights))
    return IntervalFactors(
        below=_factor(-pooled, pooled_weights), above=_factor(pooled, pooled_weights)
    )


def _newest(outcomes: Sequence[PastOutcome]) -> list[PastOutcome]:
    """The newest outcomes, up to ``OUTCOMES_USED`` measurements."""
    counted = np.cumsum([each.weight for each in reversed(outcomes)])
    used = int(np.searchsorted(counted, OUTCOMES_USED * (1 + ROUNDING), side="right"))
    return list(outcomes[len(outcomes) - used :])


def _pseudo_scores() -> FloatArray:
    """Scores of outcomes with a correct noise model."""
    at = (np.arange(PSEUDO_OBSERVATIONS) + 0.5) / PSEUDO_OBSERVATIONS
    end = student.ppf(1 - OUTSIDE_EACH_SIDE, FREEDOM)
    return np.asarray(PSEUDO_WIDTH * student.ppf(at, FREEDOM) / end)


def _factor(scores: FloatArray, weights: FloatArray) -> float:
    """The bounded quantile of the scores; each stands at the middle of its weight [Hazen]."""
    order = np.argsort(scores, kind="stable")
    upto = np.cumsum(weights[order])
    middle = (upto - 0.5 * weights[order]) / upto[-1]
    quantile = float(np.interp(1 - OUTSIDE_EACH_SIDE, middle, scores[order]))
    return min(max(quantile, NARROWEST), WIDEST)
