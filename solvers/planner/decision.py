"""Decide whether a plan is worth its moves, by the thresholds of the job's policy. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ballast.contracts.policy import JobPolicy, TrafficPolicy
from solvers.model import metrics
from solvers.model.objective import JOINT, WEIGHTED
from solvers.model.problem import Problem
from solvers.model.result import Result, SolverRun, Status, make_result


def result_or_unchanged(
    problem: Problem, result: Result, policy: JobPolicy, rerouted: Problem | None = None
) -> Result:
    """The result if it is worth its moves; otherwise a result that moves nothing.

    Args:
        problem: the problem that was solved.
        result: the assignment that the solver found.
        policy: its thresholds decide.
        rerouted: the problem with the traffic as the plan's routes change it; ``problem`` if the
            plan changes no route.

    Returns:
        ``result`` itself, or the current assignment with the reason.
    """
    reason = reason_unchanged(problem, result, policy, rerouted)
    if reason is None:
        return result
    return make_result(
        problem,
        problem.current.copy(),
        SolverRun(
            method=result.method,
            bound=result.bound or 0.0,
            seconds=result.seconds,
            trace=result.trace,
            reason=reason,
        ),
    )


def reason_unchanged(
    problem: Problem, result: Result, policy: JobPolicy, rerouted: Problem | None = None
) -> str | None:
    """Why the plan is not worth its moves; None if it is. Arguments as above.

    Moves from a dead or a draining node are always worth it. The last key group of a draining
    node often has little load, so a threshold would keep the node for ever.
    """
    if result.status is Status.UNCHANGED:
        return "no plan within the budget is better than leaving everything where it is"
    if _frees_a_node(problem, result):
        return None
    if policy.objective.kind == JOINT:
        gain = _traffic_gain(problem, rerouted or problem, result, policy.traffic)
        if policy.objective.trade == WEIGHTED:
            return _reason_weighted(result, policy, gain)
        return _reason_joint(result, policy, gain)
    return _reason_balance(result, policy)


def as_change(result: Result) -> Result:
    """The result with a status that is not ``unchanged``: the plan changes something else."""
    if result.status is not Status.UNCHANGED:
        return result
    return replace(result, status=Status.FEASIBLE if result.gap else Status.OPTIMAL)


def _frees_a_node(problem: Problem, result: Result) -> bool:
    before = int(np.count_nonzero(problem.draining[problem.current]))
    after = int(np.count_nonzero(problem.draining[result.assignment]))
    return result.forced_moves > 0 or after < before


def _reason_balance(result: Result, policy: JobPolicy) -> str | None:
    """A plan for balance must lower a load distance that is not good enough yet."""
    thresholds = policy.thresholds
    before, gain = result.load_distance_before, result.load_distance_before - result.load_distance
    if before <= thresholds.good_enough_pct:
        return (
            f"the load distance, {before:.2f} % of the mean, is good enough "
            f"(good_enough_pct is {thresholds.good_enough_pct:g})"
        )
    if gain < thresholds.min_improvement_pct:
        return (
            f"the best plan lowers the load distance by {gain:.2f} points of percent, from "
            f"{before:.2f} % (min_improvement_pct is {thresholds.min_improvement_pct:g})"
        )
    return None


def _traffic_gain(
    problem: Problem, rerouted: Problem, result: Result, prices: TrafficPolicy
) -> float:
    """Percent of the traffic, by its price, that the plan saves; 0 if no traffic was measured."""
    within, between = prices.within_rack_price, prices.between_racks_price
    before = metrics.saved_traffic(problem, problem.current, within, between)
    after = metrics.saved_traffic(rerouted, result.assignment, within, between)
    return 0.0 if before is None or after is None else after - before


def _reason_joint(result: Result, policy: JobPolicy, gain: float) -> str | None:
    """A joint plan must level a load above the bound, or save enough traffic."""
    allowed, thresholds = policy.objective.max_load_distance_pct, policy.thresholds
    before = result.load_distance_before
    lowered = before - result.load_distance
    if before > allowed and lowered >= thresholds.min_improvement_pct:
        return None
    if gain >= thresholds.min_collocation_gain_pct:
        return None
    prices = policy.traffic
    saves = f"brings {gain:.2f} percent more of the traffic within nodes"
    if prices.within_rack_price < prices.between_racks_price:
        saves = f"saves {gain:.2f} percent of the traffic by its price within and between racks"
    return (
        f"the best plan {saves} "
        f"(min_collocation_gain_pct is {thresholds.min_collocation_gain_pct:g}) and the load "
        f"distance from {before:.2f} % to {result.load_distance:.2f} % (max_load_distance_pct is "
        f"{allowed:g})"
    )


def _reason_weighted(result: Result, policy: JobPolicy, gain: float) -> str | None:
    """A weighted plan must gain enough by the weights of load and traffic together."""
    objective, least = policy.objective, policy.thresholds.min_weighted_gain
    lowered = result.load_distance_before - result.load_distance
    total = objective.traffic_weight * gain + objective.load_weight * lowered
    if total >= least:
        return None
    return (
        f"the best plan gains {total:.2f} by the weights (min_weighted_gain is {least:g}): "
        f"traffic saved {gain:+.2f} percent at {objective.traffic_weight:g} each, load distance "
        f"from {result.load_distance_before:.2f} % to {result.load_distance:.2f} % at "
        f"{objective.load_weight:g} a percent"
    )
