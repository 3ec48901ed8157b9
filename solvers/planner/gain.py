"""Whether the gain of a plan is real, or could come from the noise of the loads. Pure.

The load is compared by ``gain_evidence`` of solvers/noise, the traffic by the standard errors of
its rates at the same level. Moves that a dead or a draining node needs are not compared at all.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri  # type: ignore[import-untyped]

from ballast.contracts.policy import TrafficPolicy
from solvers.model import metrics
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, make_result
from solvers.noise.gain_evidence import TESTED_ROUNDS, GainEvidence, further_windows, gain_evidence
from solvers.noise.load_distance_distribution import next_load_distance

WORSE = 1e-6
"""Relative: load distances that differ by less are equal."""


def expected_distance(
    problem: Problem, assignment: IntArray, after: Problem | None = None
) -> float:
    """The load distance that the next period is expected to measure, in percent of the mean."""
    return next_load_distance(problem, assignment, after).median


def load_evidence(
    problem: Problem, result: Result, min_chance: float, after: Problem | None = None
) -> GainEvidence | None:
    """Evidence that the plan levels the load; None if the noise of the loads is not known."""
    if problem.noise is None:
        return None
    return gain_evidence(problem, result.assignment, min_chance, after=after)


def traffic_evidence(
    problem: Problem, assignment: IntArray, prices: TrafficPolicy, min_chance: float
) -> GainEvidence | None:
    """Evidence that the plan saves traffic; None if the noise of the traffic is not known.

    The error of the saved share comes from the standard errors of the edges that an assignment
    saves more of, or less. Edges err independently.
    """
    noise = problem.noise
    if noise is None or noise.traffic_error is None or problem.traffic_rate is None:
        return None
    total = float(problem.traffic_rate.sum())
    if total <= 0:
        return None
    change = _saved_shares(problem, assignment, prices)
    change -= _saved_shares(problem, problem.current, prices)
    gain = float(change @ problem.traffic_rate) / total
    sd = float(np.sqrt((((change - gain) * noise.traffic_error) ** 2).sum())) / total
    return _evidence(100.0 * gain, 100.0 * sd, min_chance, noise.windows)


def _evidence(gain: float, sd: float, min_chance: float, windows: int) -> GainEvidence:
    limit = float(ndtri(1.0 - (1.0 - min_chance) / TESTED_ROUNDS))
    score = math.inf * np.sign(gain) if sd <= 0 and gain else gain / sd if sd > 0 else 0.0
    is_real = bool(score >= limit)
    needed = 0 if is_real else further_windows(gain, limit * sd, windows)
    chance = max(0.0, 1.0 - TESTED_ROUNDS * float(ndtr(-score)))
    relation = "beyond" if is_real else "within"
    text = (
        f"the traffic saved, {gain:.1f} %, is {relation} the noise of {limit * sd:.1f} of these "
        f"{windows} windows"
    )
    if needed:
        text += f"; with {needed} more windows it would be beyond the noise"
    return GainEvidence(gain, limit * sd, chance, is_real, needed, text)


def _saved_shares(problem: Problem, assignment: IntArray, prices: TrafficPolicy) -> FloatArray:
    """[E]: which part of the price of a record is saved by how near its two ends are."""
    rack = np.unique(np.array(problem.rack), return_inverse=True)[1]
    source, target = assignment[problem.traffic_from], assignment[problem.traffic_to]
    within, between = prices.within_rack_price, prices.between_racks_price
    near = 1.0 - within / between if within < between else 0.0
    saved = np.where(rack[source] == rack[target], near, 0.0)
    return np.asarray(np.where(source == target, 1.0, saved))


def without_unproven_moves(problem: Problem, result: Result, min_chance: float) -> Result:
    """A balance plan without the moves by choice whose gain could come from noise.

    Moves off dead and draining nodes, and off nodes that are not allowed, stay as they are. The
    other moves stay too where their gain is real, or where the plan needs them: under a cap, or
    because the load distance would be larger than with the necessary moves alone.
    """
    chosen = _chosen_moves(problem, result.assignment)
    if problem.noise is None or not chosen.any():
        return result
    rest = np.where(chosen, problem.current, result.assignment)
    before = replace(problem, current=rest)
    if gain_evidence(before, result.assignment, min_chance).is_real or _needs(problem, rest):
        return result
    count = int(chosen.sum())
    left_out = "1 move for balance is" if count == 1 else f"{count} moves for balance are"
    return make_result(
        problem,
        rest,
        SolverRun(
            method=result.method,
            bound=result.bound or 0.0,
            seconds=result.seconds,
            trace=result.trace,
            reason=f"{left_out} left out of the plan that was found, because the gain is within "
            f"the noise; with them: {result.reason}",
        ),
    )


def _chosen_moves(problem: Problem, assignment: IntArray) -> BoolArray:
    """[G]: moves that neither a dead or draining node nor the allowed nodes ask for."""
    every = np.arange(problem.n_key_groups)
    may_stay = problem.staying[problem.current] & problem.permits(every, problem.current)
    return metrics.moved_mask(problem, assignment) & may_stay


def _needs(problem: Problem, rest: IntArray) -> bool:
    """Whether the plan breaks a rule without its moves by choice."""
    if metrics.over_cap(problem, rest).any():
        return True
    every = np.arange(problem.n_key_groups)
    must = metrics.forced_mask(problem) | ~problem.permits(every, problem.current)
    least = metrics.load_distance(problem, np.where(must, rest, problem.current))
    return metrics.load_distance(problem, rest) > least * (1.0 + WORSE) + WORSE
