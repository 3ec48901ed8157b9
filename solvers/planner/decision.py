"""Decide whether a plan is worth its moves, by the thresholds of the job's policy. Pure.

Where the noise of the loads is known, the gain of a plan must also be real (see ``gain``), and the
thresholds are compared with the load distance that the next period is expected to measure. A
balance plan pays for its moves by keeping its budget; a joint plan also by the amortisation gate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ballast.contracts.policy import JobPolicy, TrafficPolicy
from solvers.model import metrics
from solvers.model.objective import JOINT, WEIGHTED
from solvers.model.problem import Problem
from solvers.model.result import Result, SolverRun, Status, make_result
from solvers.noise.gain_evidence import GainEvidence
from solvers.planner.gain import (
    expected_distance,
    load_evidence,
    traffic_evidence,
    without_unproven_moves,
)


def result_or_unchanged(
    problem: Problem,
    result: Result,
    policy: JobPolicy,
    rerouted: Problem | None = None,
    after: Problem | None = None,
) -> Result:
    """The result if it is worth its moves; otherwise a result that moves nothing.

    Args:
        problem: the problem that was solved.
        result: the assignment that the solver found.
        policy: its thresholds decide.
        rerouted: the problem with the traffic as the plan's routes change it; ``problem`` if the
            plan changes no route.
        after: the problem with the loads as the plan changes them; ``problem`` if it does not.

    Returns:
        ``result`` itself, or the current assignment with the reason. A balance plan with necessary
        moves keeps them, and other moves only if their gain is real.
    """
    reason = reason_unchanged(problem, result, policy, rerouted, after)
    if reason is None:
        if policy.objective.kind == JOINT or not has_necessary_moves(problem, result):
            return result
        return without_unproven_moves(problem, result, policy.thresholds.min_gain_chance)
    return make_result(
        problem,
        problem.current.copy(),
        SolverRun(
            method=result.method,
            bound=result.bound or 0.0,
            seconds=result.seconds,
            trace=result.trace,
            reason=reason,
            collocation_bound=result.collocation_bound,
        ),
    )


def reason_unchanged(
    problem: Problem,
    result: Result,
    policy: JobPolicy,
    rerouted: Problem | None = None,
    after: Problem | None = None,
) -> str | None:
    """Why the plan is not worth its moves; None if it is. Arguments as above.

    Moves from a dead or a draining node, or off a node that a rule forbids, are always worth it.
    The last key group of a draining
    node often has little load, so a threshold would keep the node for ever.
    """
    if result.status is Status.UNCHANGED:
        better = "better" if problem.noise is None else "measurably better"
        return f"no plan within the budget is {better} than leaving everything where it is"
    if has_necessary_moves(problem, result):
        return None
    if policy.objective.kind != JOINT:
        return _reason_balance(problem, result, policy, after)
    gain = _JointGain.of(problem, result, policy, rerouted or problem, after)
    if policy.objective.trade == WEIGHTED:
        return _reason_weighted(result, policy, gain)
    return _reason_joint(result, policy, gain)


def evidence_of(
    problem: Problem,
    result: Result,
    policy: JobPolicy,
    rerouted: Problem | None = None,
    after: Problem | None = None,
) -> GainEvidence | None:
    """The evidence that decides about a plan; of a joint plan the stronger of load and traffic.

    None if the noise of the loads is not known, if nothing moves, or if moves are necessary.
    """
    if result.status is Status.UNCHANGED or has_necessary_moves(problem, result):
        return None
    chance = policy.thresholds.min_gain_chance
    load = load_evidence(problem, result, chance, after)
    if load is None or policy.objective.kind != JOINT or rerouted not in (None, problem):
        return load
    traffic = traffic_evidence(problem, result.assignment, policy.traffic, chance)
    return load if traffic is None or traffic.chance <= load.chance else traffic


def as_change(result: Result) -> Result:
    """The result with a status that is not ``unchanged``: the plan changes something else."""
    if result.status is not Status.UNCHANGED:
        return result
    return replace(result, status=Status.FEASIBLE if result.gap else Status.OPTIMAL)


def has_necessary_moves(problem: Problem, result: Result) -> bool:
    """Whether the plan takes key groups off nodes that are dead, drain or are not allowed."""
    before = int(np.count_nonzero(problem.draining[problem.current]))
    after = int(np.count_nonzero(problem.draining[result.assignment]))
    misplaced = ~problem.permits(np.arange(problem.n_key_groups), problem.current)
    return result.forced_moves > 0 or after < before or bool(misplaced.any())


def _reason_balance(
    problem: Problem, result: Result, policy: JobPolicy, after: Problem | None
) -> str | None:
    """A plan for balance must lower a load distance that is not good enough yet."""
    thresholds = policy.thresholds
    evidence = load_evidence(problem, result, thresholds.min_gain_chance, after)
    figure, before, behind = "load distance", result.load_distance_before, result.load_distance
    if evidence is not None:
        figure = "load distance to be measured"
        before = expected_distance(problem, problem.current)
        behind = expected_distance(problem, result.assignment, after)
    if before <= thresholds.good_enough_pct:
        return (
            f"the {figure}, {before:.2f} % of the mean, is good enough "
            f"(good_enough_pct is {thresholds.good_enough_pct:g})"
        )
    if evidence is not None and not evidence.is_real:
        return with_trend(problem, evidence.text)
    if evidence is not None and evidence.loads_change:
        # The change until the next period is in the figure to be measured, and no plan lowers it.
        figure, before = "load distance", result.load_distance_before
        behind = metrics.load_distance(after or problem, result.assignment)
    if before - behind < thresholds.min_improvement_pct:
        return (
            f"the best plan lowers the {figure} by {before - behind:.2f} points of percent, from "
            f"{before:.2f} % (min_improvement_pct is {thresholds.min_improvement_pct:g})"
        )
    return None


def with_trend(problem: Problem, reason: str) -> str:
    """A reason, and how loads moved during the period if they did.

    The plan is decided on as any other: its gain has to be beyond the noise, which a movement
    within the period makes larger.
    """
    trend = "" if problem.noise is None else problem.noise.trend
    return f"{reason}; loads moved during the period ({trend})" if trend else reason


@dataclass(frozen=True, slots=True)
class _JointGain:
    """What a joint plan gains. A gain within the noise is 0, a loss counts in any case."""

    traffic: float
    """Percent of the traffic, by its price, that the plan saves."""
    lowered: float
    """Percentage points by which it lowers the load distance."""
    doubts: tuple[str, ...] = ()
    """Gains that are within the noise, in sentences."""

    @classmethod
    def of(
        cls,
        problem: Problem,
        result: Result,
        policy: JobPolicy,
        rerouted: Problem,
        after: Problem | None,
    ) -> _JointGain:
        chance = policy.thresholds.min_gain_chance
        traffic = _traffic_gain(problem, rerouted, result, policy.traffic)
        lowered = result.load_distance_before - result.load_distance
        load = load_evidence(problem, result, chance, after)
        if load is not None:
            lowered = expected_distance(problem, problem.current)
            lowered -= expected_distance(problem, result.assignment, after)
        doubts: list[str] = []
        if load is not None and not load.is_real and lowered > 0:
            lowered, doubts = 0.0, [load.text]
        # Nothing is known of the noise of edges that routes make.
        saved = None
        if rerouted is problem:
            saved = traffic_evidence(problem, result.assignment, policy.traffic, chance)
        if saved is not None and not saved.is_real and traffic > 0:
            traffic, doubts = 0.0, [*doubts, saved.text]
        return cls(traffic, lowered, tuple(with_trend(problem, doubt) for doubt in doubts))

    def with_doubts(self, reason: str) -> str:
        """A reason, and the gains that do not count."""
        return "; ".join((reason, *self.doubts))


def _traffic_gain(
    problem: Problem, rerouted: Problem, result: Result, prices: TrafficPolicy
) -> float:
    """Percent of the traffic, by its price, that the plan saves; 0 if no traffic was measured."""
    within, between = prices.within_rack_price, prices.between_racks_price
    before = metrics.saved_traffic(problem, problem.current, within, between)
    after = metrics.saved_traffic(rerouted, result.assignment, within, between)
    return 0.0 if before is None or after is None else after - before


def _reason_joint(result: Result, policy: JobPolicy, gain: _JointGain) -> str | None:
    """A joint plan must level a load above the bound, or save enough traffic, or level for free.

    Where it loses no traffic, the rule of balance plans holds for the load.
    """
    allowed, thresholds = policy.objective.max_load_distance_pct, policy.thresholds
    before = result.load_distance_before
    if before > allowed and gain.lowered >= thresholds.min_improvement_pct:
        return None
    if gain.traffic >= thresholds.min_collocation_gain_pct:
        return None
    is_level = before <= thresholds.good_enough_pct
    if not is_level and gain.traffic >= 0 and gain.lowered >= thresholds.min_improvement_pct:
        return None
    prices = policy.traffic
    saves = f"brings {gain.traffic:.2f} percent more of the traffic within nodes"
    if prices.within_rack_price < prices.between_racks_price:
        saves = (
            f"saves {gain.traffic:.2f} percent of the traffic by its price within and between racks"
        )
    return gain.with_doubts(
        f"the best plan {saves} "
        f"(min_collocation_gain_pct is {thresholds.min_collocation_gain_pct:g}) and the load "
        f"distance from {before:.2f} % to {result.load_distance:.2f} % (max_load_distance_pct is "
        f"{allowed:g}, good_enough_pct {thresholds.good_enough_pct:g}, min_improvement_pct "
        f"{thresholds.min_improvement_pct:g})"
    )


def _reason_weighted(result: Result, policy: JobPolicy, gain: _JointGain) -> str | None:
    """A weighted plan must gain enough by the weights of load and traffic together."""
    objective, least = policy.objective, policy.thresholds.min_weighted_gain
    total = objective.traffic_weight * gain.traffic + objective.load_weight * gain.lowered
    if total >= least:
        return None
    return gain.with_doubts(
        f"the best plan gains {total:.2f} by the weights (min_weighted_gain is {least:g}): "
        f"traffic saved {gain.traffic:+.2f} percent at {objective.traffic_weight:g} each, load "
        f"distance from {result.load_distance_before:.2f} % to {result.load_distance:.2f} % at "
        f"{objective.load_weight:g} a percent"
    )
