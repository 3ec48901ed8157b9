"""Checks that a plan is no worse than its necessary moves alone, by the objective of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from solvers.verify.plan_figures import (
    PlanFigures,
    is_on_allowed_node,
    load_distance,
    load_under,
    sum_by_node,
    traffic_price,
)
from solvers.verify.rules import restores_rule_of_several
from solvers.verify.tolerance import ABSOLUTE_TOLERANCE, is_close
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.objective import Objective, TradeWeights
    from solvers.model.problem import Problem

Ints = npt.NDArray[np.int64]


def check_improvement(
    problem: Problem, figures: PlanFigures, objective: Objective | None, levels_operator: bool
) -> Iterator[Violation]:
    """The plan is no worse than its necessary moves alone.

    Key groups must leave dead nodes and nodes that are not allowed, so a comparison with no moves
    at all would not be fair. If the necessary moves alone break a cap, there is no comparison, and
    none either if the plan brings key groups apart that share a node and may not. A
    balance plan may not have a higher load distance, unless it levels an operator
    (``levels_operator``) and stays within the limit for that. A joint plan may have one within its
    bound if it does not cost traffic. With weights, the weighted sum of both may not be worse.
    """
    necessary = figures.was_dead | ~is_on_allowed_node(problem, figures.before)
    if restores_rule_of_several(problem, figures.plan):
        return
    least = np.where(necessary, figures.plan, figures.before)
    load = load_under(problem, least, objective)
    sums = sum_by_node(problem, least, load)
    if np.any(sums > figures.cap_limits):
        return
    without = load_distance(problem, sums, load, relative=True)
    distance = figures.number("load_distance")
    is_worse = distance > without and not is_close(distance, without)
    if objective is None or not objective.is_joint:
        limit = 0.0 if objective is None or not levels_operator else objective.levelling_limit
        if is_worse and distance > limit and not is_close(distance, limit):
            yield Violation(
                "better_than_nothing",
                f"load distance {distance:.9g} % with the plan, {without:.9g} % without",
            )
        return
    if objective.weights is not None:
        yield from _check_weighted_sum(
            problem, figures, least, without, objective, objective.weights
        )
        return
    bound = objective.max_load_distance
    if is_worse and distance > bound and not is_close(distance, bound):
        yield Violation(
            "max_load_distance",
            f"load distance {distance:.9g} % with the plan, {without:.9g} % without, allowed "
            f"{bound:.9g} %",
        )
    if without <= bound and "draining" not in problem.node_state:
        yield from _check_traffic(problem, figures, least, objective)


def _check_traffic(
    problem: Problem, figures: PlanFigures, least: Ints, objective: Objective
) -> Iterator[Violation]:
    """The traffic between nodes costs no more than with the necessary moves alone."""
    before = traffic_price(problem, least, objective)
    after = traffic_price(figures.after, figures.plan, objective)
    if after > before and not is_close(after, before):
        yield Violation(
            "better_than_nothing",
            f"traffic between nodes costs {after:.9g} with the plan, {before:.9g} without",
        )


def _check_weighted_sum(
    problem: Problem,
    figures: PlanFigures,
    least: Ints,
    without: float,
    objective: Objective,
    weights: TradeWeights,
) -> Iterator[Violation]:
    """The weighted sum of traffic and load is no worse.

    A plan that empties a draining node may cost traffic, but it may not raise the load distance.
    """
    per_traffic, per_load = weights.traffic, weights.load
    distance = figures.number("load_distance")
    span = objective.costs.between_racks - objective.costs.within_node
    cheaper = traffic_price(problem, least, objective) - traffic_price(
        figures.after, figures.plan, objective
    )
    gain = per_traffic * cheaper / span - per_load * (distance - without)
    tolerance = ABSOLUTE_TOLERANCE * (per_traffic + per_load * (1.0 + distance))
    if gain >= -tolerance:
        return
    if figures.number("drained_moves") and (distance <= without or is_close(distance, without)):
        return
    yield Violation(
        "better_than_nothing",
        f"by weights {per_traffic:g} of traffic and {per_load:g} of load the plan is "
        f"{-gain:.9g} worse than doing nothing: load distance {distance:.9g} % with it, "
        f"{without:.9g} % without, traffic saved {cheaper / span:.9g} points",
    )
