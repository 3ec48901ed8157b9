"""What a plan promises that the next period will measure: expected values and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import t as student  # type: ignore[import-untyped]

from solvers.model import metrics
from solvers.model.problem import IntArray, Problem
from solvers.noise.calibration import IntervalFactors, PastOutcome, interval_factors
from solvers.noise.load_distance import LoadDistanceDistribution, next_load_distance

OUTER, FAR = 0.05, 0.0005
"""Probability of each end of the 90 % and of the 99.9 % interval."""
FEWEST_OUTCOMES = 5
"""Outcomes from which a figure without a noise model gets an interval."""
INSIDE, BELOW, ABOVE = "inside", "below", "above"
LOAD_DISTANCE, LOAD_DISTANCE_POINTS = "load_distance_pct", "load_distance_points"
NODE_LOAD, COLLOCATION = "cpu_load_cores", "collocation_factor_pct"
NO_NOISE = "the noise of the loads is not known"


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
    """Further figures."""
    outcomes: Mapping[str, Sequence[PastOutcome]] = field(default_factory=dict)
    """First outcomes of the job's earlier versions by figure, oldest first. Those of all nodes
    are under ``cpu_load_cores``."""


def plan_promises(request: PlanPromiseRequest) -> tuple[FigurePromise, ...]:
    """Promise every figure of a plan.

    Returns:
        Load distance in percent and in points, CPU load of each node that stays, the collocation
        factor if there is traffic, and the further figures of the request.
    """
    reason = no_interval_reason(request.problem)
    balance = [_load_distance(request, reason), _load_distance_points(request, reason)]
    return (
        *balance,
        *_node_loads(request, reason),
        *_collocation(request, reason),
        *(_other(request, each) for each in request.figures),
    )


def no_interval_reason(problem: Problem) -> str:
    """Why the loads of a problem allow no interval; empty if they do."""
    if problem.noise is None:
        return NO_NOISE
    return problem.noise.trend


def promise_side(measured: float, low: float, high: float) -> str:
    """Whether a measured value is ``inside``, ``below`` or ``above`` its interval."""
    if measured < low:
        return BELOW
    return ABOVE if measured > high else INSIDE


def _load_distance(request: PlanPromiseRequest, reason: str) -> FigurePromise:
    found = next_load_distance(request.problem, request.assignment, request.after)
    return _of_distribution(LOAD_DISTANCE, "% of mean", found, request, reason)


def _load_distance_points(request: PlanPromiseRequest, reason: str) -> FigurePromise:
    expected = metrics.load_distance_points(request.after, request.assignment)
    return FigurePromise(LOAD_DISTANCE_POINTS, "points", expected, reason=reason or "to come")


def _of_distribution(
    figure: str,
    unit: str,
    found: LoadDistanceDistribution,
    request: PlanPromiseRequest,
    reason: str,
) -> FigurePromise:
    if reason:
        return FigurePromise(figure, unit, found.median, reason=reason)
    factors = interval_factors(request.outcomes.get(figure, ()))
    ends = [found.quantile(p) for p in (OUTER, 1 - OUTER, FAR, 1 - FAR)]
    return with_factors(figure, unit, found.median, ends, factors)


def with_factors(
    figure: str, unit: str, expected: float, ends: Sequence[float], factors: IntervalFactors
) -> FigurePromise:
    """A promise with the distances of the ends of its intervals multiplied by the factors.

    Args:
        figure: its name.
        unit: its unit.
        expected: the expected value; no figure is promised below 0.
        ends: lower and upper end of the 90 % interval, then of the 99.9 % interval.
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


def _node_loads(request: PlanPromiseRequest, reason: str) -> list[FigurePromise]:
    after = request.after
    if "cpu" not in after.resources:
        return []
    r = after.resources.index("cpu")
    loads = metrics.node_loads(after, request.assignment)[:, r] * after.capacity[:, r]
    return [
        FigurePromise(f"{NODE_LOAD}/{name}", "cores", float(loads[i]), reason=reason or "to come")
        for i, name in enumerate(after.node_ids)
        if after.staying[i]
    ]


def _collocation(request: PlanPromiseRequest, reason: str) -> list[FigurePromise]:
    expected = metrics.collocation_factor(request.after, request.assignment)
    if expected is None:
        return []
    return [FigurePromise(COLLOCATION, "%", expected, reason=reason or "to come")]


def _other(request: PlanPromiseRequest, figure: ExpectedFigure) -> FigurePromise:
    """A figure without a noise model: exact, or with the spread of earlier outcomes."""
    name, unit, expected = figure.figure, figure.unit, figure.expected
    if figure.is_exact:
        return FigurePromise(name, unit, expected, *[expected] * 4, 1.0, 1.0)
    outcomes = request.outcomes.get(name, ())
    logs = [math.log(o.measured / o.expected) for o in outcomes if o.measured > 0 < o.expected]
    if len(logs) < FEWEST_OUTCOMES:
        reason = f"{len(logs)} earlier outcomes; an interval needs {FEWEST_OUTCOMES}"
        return FigurePromise(name, unit, expected, reason=reason)
    mean, sd = float(np.mean(logs)), float(np.std(logs, ddof=1)) * math.sqrt(1 + 1 / len(logs))
    ends = [
        expected * math.exp(mean + sd * float(student.ppf(p, len(logs) - 1)))
        for p in (OUTER, 1 - OUTER, FAR, 1 - FAR)
    ]
    return FigurePromise(name, unit, expected * math.exp(mean), *ends, 1.0, 1.0)
