"""What a plan promises that the next period will measure: expected values and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr  # type: ignore[import-untyped]
from scipy.stats import t as student  # type: ignore[import-untyped]

from solvers.model import metrics
from solvers.model.problem import IntArray, Problem
from solvers.noise.calibration import FREEDOM, IntervalFactors, PastOutcome, interval_factors
from solvers.noise.load_distance_distribution import (
    LoadDistanceDistribution,
    common_sd,
    next_load_distance,
    next_load_distance_points,
    node_variance,
)

OUTER, FAR = 0.05, 0.0005
"""Probability of each end of the 90 % and of the 99.9 % interval."""
FEWEST_OUTCOMES = 5
"""Outcomes from which a figure without a noise model gets an interval."""
LOAD_DISTANCE, LOAD_DISTANCE_POINTS = "load_distance_pct", "load_distance_points"
NODE_LOAD, COLLOCATION = "cpu_load_cores", "collocation_factor_pct"
WIRE_BYTES, WIRE_PER_RECORD = "wire_bytes_per_s", "wire_bytes_per_record"
NO_NOISE = "the noise of the loads is not known"
NO_TRAFFIC_NOISE = "the noise of the traffic is not known"

Ends = tuple[float, float, float, float]
"""Lower and upper end of the 90 % interval, then of the 99.9 % interval."""


@dataclass(frozen=True, slots=True)
class FigurePromise:
    """The promise of one figure: a row of ``plans.promises`` without job and plan."""

    figure: str
    unit: str
    expected: float
    low: float | None = None
    high: float | None = None
    """The 90 % interval; None if there is none."""
    lowest: float | None = None
    highest: float | None = None
    """The 99.9 % interval."""
    calibration_below: float | None = None
    calibration_above: float | None = None
    reason: str = ""
    """Why there is no interval; empty if there is one."""


@dataclass(frozen=True, slots=True)
class ExpectedFigure:
    """A figure that the caller computes, such as bytes that will be moved."""

    figure: str
    unit: str
    expected: float
    is_exact: bool = False
    """The plan fixes it, as it does the number of moves."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PlanPromiseRequest:
    """A plan whose figures are promised."""

    problem: Problem
    """As it was solved; its noise is that of the loads."""
    assignment: IntArray
    after: Problem
    """The problem with the loads and the traffic as the plan changes them: keys that were routed
    elsewhere, and the cost of records that become remote or local."""
    figures: Sequence[ExpectedFigure] = ()
    """Further figures. Bytes on the wire get an interval from the noise of the traffic, others
    from the spread of earlier outcomes."""
    outcomes: Mapping[str, Sequence[PastOutcome]] = field(default_factory=dict)
    """First outcomes of the job's earlier versions by figure, oldest first. Those of all nodes
    are under ``cpu_load_cores``."""


def plan_promises(request: PlanPromiseRequest) -> tuple[FigurePromise, ...]:
    """Promise every figure of a plan.

    Returns:
        Load distance in percent and in points, CPU load of each node that stays, the collocation
        factor if there is traffic, and the further figures of the request.
    """
    return (
        load_distance_promise(request),
        _load_distance_points(request),
        *_node_loads(request),
        *_collocation(request),
        *(_further(request, each) for each in request.figures),
    )


def load_distance_promise(request: PlanPromiseRequest) -> FigurePromise:
    """The promise of the load distance alone."""
    found = next_load_distance(request.problem, request.assignment, request.after)
    return _of_distribution(LOAD_DISTANCE, "% of mean", found, request)


def no_interval_reason(problem: Problem) -> str:
    """Why the loads of a problem allow no interval; empty if they do."""
    if problem.noise is None:
        return NO_NOISE
    return problem.noise.trend


def end_probability(outside: float) -> float:
    """The normal probability of an end that leaves so much outside under Student's t."""
    return float(ndtr(student.ppf(outside, FREEDOM)))


def _ends(quantile: Callable[[float], float]) -> Ends:
    """Ends from the quantiles of a distribution."""
    outer, far = end_probability(OUTER), end_probability(FAR)
    return quantile(outer), quantile(1 - outer), quantile(far), quantile(1 - far)


def _normal_ends(expected: float, sd: float) -> Ends:
    outer, far = (float(student.ppf(p, FREEDOM)) * sd for p in (OUTER, FAR))
    return expected + outer, expected - outer, expected + far, expected - far


def with_factors(
    figure: str, unit: str, expected: float, ends: Ends, factors: IntervalFactors
) -> FigurePromise:
    """A promise with the distances of the ends of its intervals multiplied by the factors.

    Args:
        figure: its name.
        unit: its unit.
        expected: the expected value; no figure is promised below 0.
        ends: the ends by the noise alone.
        factors: of the job's earlier outcomes.
    """
    low, high, lowest, highest = ends
    return FigurePromise(
        figure,
        unit,
        expected,
        low=max(0.0, expected - factors.below * (expected - low)),
        high=expected + factors.above * (high - expected),
        lowest=max(0.0, expected - factors.below * (expected - lowest)),
        highest=expected + factors.above * (highest - expected),
        calibration_below=factors.below,
        calibration_above=factors.above,
    )


def _factors(request: PlanPromiseRequest, family: str) -> IntervalFactors:
    return interval_factors(request.outcomes.get(family, ()))


def _load_distance_points(request: PlanPromiseRequest) -> FigurePromise:
    found = next_load_distance_points(request.problem, request.assignment, request.after)
    return _of_distribution(LOAD_DISTANCE_POINTS, "points", found, request)


def _of_distribution(
    figure: str, unit: str, found: LoadDistanceDistribution, request: PlanPromiseRequest
) -> FigurePromise:
    reason = no_interval_reason(request.problem)
    if reason:
        return FigurePromise(figure, unit, found.median, reason=reason)
    return with_factors(
        figure, unit, found.median, _ends(found.quantile), _factors(request, figure)
    )


def _node_loads(request: PlanPromiseRequest) -> list[FigurePromise]:
    """The CPU load of each node: the sum over its key groups."""
    problem = request.problem
    if "cpu" not in problem.resources:
        return []
    r = problem.resources.index("cpu")
    loads = metrics.node_loads(request.after, request.assignment) * problem.capacity
    own = np.sqrt(node_variance(problem, request.assignment))
    sd = np.hypot(own, loads * common_sd(problem))
    reason, factors = no_interval_reason(problem), _factors(request, NODE_LOAD)
    promises = []
    for i in np.flatnonzero(problem.staying):
        name, expected = f"{NODE_LOAD}/{problem.node_ids[i]}", float(loads[i, r])
        if reason:
            promises.append(FigurePromise(name, "cores", expected, reason=reason))
        else:
            ends = _normal_ends(expected, float(sd[i, r]))
            promises.append(with_factors(name, "cores", expected, ends, factors))
    return promises


def _collocation(request: PlanPromiseRequest) -> list[FigurePromise]:
    expected = metrics.collocation_factor(request.after, request.assignment)
    if expected is None:
        return []
    sd = 100.0 * _shares_sd(request)
    return [_of_traffic(COLLOCATION, "%", expected, sd, request)]


def _of_traffic(
    figure: str, unit: str, expected: float, sd: float, request: PlanPromiseRequest
) -> FigurePromise:
    """A figure of the traffic; the standard deviation is NaN if its noise is not known."""
    reason = no_interval_reason(request.problem)
    if not reason and math.isnan(sd):
        reason = NO_TRAFFIC_NOISE
    if reason:
        return FigurePromise(figure, unit, expected, reason=reason)
    return with_factors(
        figure, unit, expected, _normal_ends(expected, sd), _factors(request, figure)
    )


def _shares_sd(request: PlanPromiseRequest) -> float:
    """Standard deviation of the share of records that stay on their node; NaN if not known.

    Edges vary independently, so the variance of the share is a weighted sum of the variances of its
    edges.
    """
    problem, noise = request.problem, request.problem.noise
    rate = problem.traffic_rate
    if noise is None or rate is None or problem.traffic_from is None or rate.sum() <= 0:
        return math.nan
    if noise.traffic_error is None or noise.traffic_period_sd is None:
        return math.nan
    variance = noise.traffic_error**2 + noise.traffic_period_sd**2
    within = request.assignment[problem.traffic_from] == request.assignment[problem.traffic_to]
    share = float(rate[within].sum() / rate.sum())
    return float(np.sqrt((variance * (within - share) ** 2).sum()) / rate.sum())


def _further(request: PlanPromiseRequest, figure: ExpectedFigure) -> FigurePromise:
    """A figure that the caller computed."""
    name, unit, expected = figure.figure, figure.unit, figure.expected
    if figure.is_exact:
        return with_factors(name, unit, expected, (expected,) * 4, IntervalFactors())
    if name in (WIRE_BYTES, WIRE_PER_RECORD):
        return _of_traffic(name, unit, expected, expected * _wire_sd(request, name), request)
    return _of_outcomes(figure, request.outcomes.get(name, ()))


def _wire_sd(request: PlanPromiseRequest, figure: str) -> float:
    """Relative standard deviation of the bytes between nodes, of a record or of a second."""
    share = metrics.collocation_factor(request.after, request.assignment)
    remote = 1.0 - (share or 0.0) / 100.0
    if remote <= 0:
        return 0.0
    sd = _shares_sd(request) / remote
    noise = request.problem.noise
    if figure == WIRE_PER_RECORD or noise is None or noise.common_period_sd is None:
        return sd
    return math.hypot(sd, float(noise.common_period_sd.max()))


def _of_outcomes(figure: ExpectedFigure, outcomes: Sequence[PastOutcome]) -> FigurePromise:
    """A figure without a noise model: measured over promised, as in earlier outcomes."""
    name, unit, expected = figure.figure, figure.unit, figure.expected
    logs = [math.log(o.measured / o.expected) for o in outcomes if o.measured > 0 < o.expected]
    reason = ""
    if len(logs) < FEWEST_OUTCOMES:
        reason = f"{len(logs)} earlier outcomes; an interval needs {FEWEST_OUTCOMES}"
    elif expected <= 0:
        reason = "the spread of earlier outcomes is relative, and the plan expects 0"
    if reason:
        return FigurePromise(name, unit, expected, reason=reason)
    mean, sd = float(np.mean(logs)), float(np.std(logs, ddof=1)) * math.sqrt(1 + 1 / len(logs))
    freedom = len(logs) - 1
    low, high, lowest, highest = (
        expected * math.exp(mean + sd * float(student.ppf(p, freedom)))
        for p in (OUTER, 1 - OUTER, FAR, 1 - FAR)
    )
    return FigurePromise(
        name, unit, expected * math.exp(mean), low, high, lowest, highest, 1.0, 1.0
    )
