"""Evidence that a plan is better than the placement in force, beyond the noise of the loads."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]
from scipy.stats import t as student  # type: ignore[import-untyped]

from solvers.model import metrics
from solvers.model.noise import LoadNoise
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.noise.load_distance_distribution import (
    LoadDistanceDistribution,
    deciding_nodes,
    variance_of_nodes,
)

TESTED_ROUNDS = 10
"""Rounds over which the chance of a plan from noise alone holds: each round tests for a gain."""
FREEDOM = 30
"""Degrees of freedom of the limit: the noise is an estimate itself."""
MOST_PERIODS = 1000
"""A difference that this many periods would not tell from noise is none."""


@dataclass(frozen=True, slots=True)
class GainEvidence:
    """Whether a plan's gain is more than the noise of the loads."""

    gain_pct: float
    """Distance from the mean of the node with the most evidence, minus the load distance with the
    plan, in percent of the mean."""
    noise_pct: float
    """The gain that noise alone reaches with the chance that the policy allows."""
    chance: float
    """The chance that the gain is not from noise."""
    is_real: bool
    windows_needed: int | None
    """Further windows in the period after which this gain would be beyond the noise; 0 if it is,
    None if no number of windows would do."""
    text: str
    loads_change: bool = False
    """True loads are known to change from period to period, and the gain is real because of it."""


def gain_evidence(
    problem: Problem, assignment: IntArray, min_chance: float, *, after: Problem | None = None
) -> GainEvidence:
    """Evidence that some node is truly further from the mean than any node with the plan.

    Null hypothesis: no node is further from the mean than the load distance of the plan. The
    largest of all nodes' statistics is compared with its distribution under this hypothesis, so
    that the choice among many plans costs nothing.

    Args:
        problem: as it was measured; its noise is that of the loads.
        assignment: the node of each key group under the plan.
        min_chance: chance that a plan is not from noise, over ``TESTED_ROUNDS`` rounds.
        after: the problem with loads as the plan changes them; ``problem`` if it does not.

    Returns:
        The evidence. Where the noise is not known, every gain counts as real.
    """
    noise = problem.noise
    if noise is None:
        return GainEvidence(0.0, 0.0, 1.0, True, 0, "the noise of the loads is not known")
    now = _true_load_distance(problem, noise)
    count = len(now.deviation)
    if not count:
        return GainEvidence(0.0, 0.0, 0.0, False, None, "no node has a load to level")
    planned = metrics.load_distance(after or problem, assignment)
    gain, sd = _strongest(now, planned)
    by_noise, chance = _limit(count, min_chance) * sd, _chance(gain, sd, count)
    changed = _strongest_of_change(problem, noise, now, planned, min_chance)
    loads_change = gain < by_noise and changed.gain >= changed.limit
    if loads_change:
        gain, by_noise, chance = changed.gain, changed.limit, changed.chance
    is_real = gain > 0 and gain >= by_noise
    needed = 0 if is_real else further_windows(gain, by_noise, noise.windows)
    text = _text(gain, by_noise, noise.windows, needed, is_real=is_real)
    return GainEvidence(gain, by_noise, chance, is_real, needed, text, loads_change)


def _strongest(now: LoadDistanceDistribution, planned: float) -> tuple[float, float]:
    """(gain, its standard deviation) of the node with the most evidence."""
    gains, sd = np.abs(now.deviation) - planned, now.sd
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(sd > 0, gains / sd, np.where(gains > 0, np.inf, -np.inf))
    best = int(np.argmax(scores))
    return float(gains[best]), float(sd[best])


@dataclass(frozen=True, slots=True)
class _ChangedNode:
    """The node with the most evidence that its load moved away."""

    gain: float
    limit: float
    """The gain from which on it is real."""
    chance: float


def _strongest_of_change(
    problem: Problem,
    noise: LoadNoise,
    now: LoadDistanceDistribution,
    planned: float,
    min_chance: float,
) -> _ChangedNode:
    """The evidence where true loads are known to change from period to period.

    Then a deviation is likely to be real: the levels already combine the expected with the measured
    loads, and the loads differ in every round. The limit therefore does not rise with the number of
    nodes or rounds; it only allows for both directions of a deviation.
    """
    changes = _change_of_deviations(problem, noise) > 0
    if not changes.any():
        return _ChangedNode(0.0, math.inf, 0.0)
    size = np.abs(now.deviation) - planned
    limit = float(ndtri(0.5 + 0.5 * min_chance)) * now.sd
    best = int(np.argmax(np.where(changes, size - limit, -np.inf)))
    sd = float(now.sd[best])
    within = 2.0 * float(ndtr(-size[best] / sd)) if sd > 0 else 0.0
    return _ChangedNode(float(size[best]), float(limit[best]), max(0.0, 1.0 - within))


def further_windows(gain: float, limit: float, windows: int) -> int | None:
    """Further windows until noise does not reach the gain any more.

    The noise of a mean falls with the square root of the windows.

    Args:
        gain: the gain, in any unit.
        limit: what noise alone reaches in so many windows, in the same unit.
        windows: windows of the period.

    Returns:
        The windows, at least 1; None if ``MOST_PERIODS`` periods would not be enough.
    """
    if gain * math.sqrt(MOST_PERIODS) < limit or gain <= 0:
        return None
    return max(1, math.ceil(windows * ((limit / gain) ** 2 - 1.0)))


def _limit(count: int, min_chance: float) -> float:
    """The largest of so many independent statistics that noise alone reaches."""
    allowed = (1.0 - min_chance) / TESTED_ROUNDS
    each = -math.expm1(math.log1p(-allowed) / count)
    return float(student.isf(each / 2, FREEDOM))


def _chance(gain: float, sd: float, count: int) -> float:
    """The chance that noise alone does not reach the gain in any of these rounds."""
    if gain <= 0:
        return 0.0
    each = 2 * float(student.sf(gain / sd, FREEDOM)) if sd > 0 else 0.0
    by_noise = -math.expm1(count * math.log1p(-min(each, 1 - 1e-12)))
    return max(0.0, 1.0 - TESTED_ROUNDS * by_noise)


def _true_load_distance(problem: Problem, noise: LoadNoise) -> LoadDistanceDistribution:
    """The true load distance of the placement in force, given the estimated loads."""
    used = deciding_nodes(problem, problem.current)
    deviation = 100.0 * metrics.weighted_deviation(problem, problem.current)
    variance = _deviation_variance(problem, noise.error_variance)
    return LoadDistanceDistribution(deviation[used], np.sqrt(variance[used]))


def _change_of_deviations(problem: Problem, noise: LoadNoise) -> FloatArray:
    """Variances of the change of nodes' true deviations in a period, in the order of the nodes of
    ``_true_load_distance``."""
    used = deciding_nodes(problem, problem.current)
    return _deviation_variance(problem, noise.true_change_variance)[used]


def _deviation_variance(problem: Problem, variance: FloatArray) -> FloatArray:
    """[N, R]: variance of the deviations of nodes, in percent of the mean, from that of loads."""
    mean, found = metrics.mean_load(problem), np.zeros((problem.n_nodes, problem.n_resources))
    of_nodes = variance_of_nodes(problem, problem.current, variance)
    for r in np.flatnonzero(mean > 0):
        unit = problem.capacity[:, r] * mean[r] / problem.weights[r]
        found[:, r] = of_nodes[:, r] * (100.0 / unit) ** 2
    return found


def _text(gain: float, noise: float, windows: int, needed: int | None, *, is_real: bool) -> str:
    """The comparison in a sentence."""
    relation = "beyond" if is_real else "within"
    text = (
        f"the difference of {max(gain, 0.0):.1f} points is {relation} the noise of {noise:.1f} of "
        f"these {windows} windows"
    )
    return f"{text}; with {needed} more windows it would be beyond the noise" if needed else text
