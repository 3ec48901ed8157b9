"""Figures that a draft promises beside those of the solver's result. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import numpy as np

from solvers.key_routing.routing_effect import key_moves_between, route_cost
from solvers.model.metrics import saved_traffic
from solvers.model.objective import Objective
from solvers.model.problem import Problem
from solvers.planner.plan import Plan
from spark_jobs.draft.round import Round
from spark_jobs.draft.wire_traffic import Wire


class TradeFigures(TypedDict):
    """How a plan trades load for traffic: columns of plans.plans that repeat the policy."""

    trade: str | None
    max_load_distance_pct: float | None
    traffic_weight: float | None
    load_weight: float | None


class LevellingFigures(TypedDict):
    """What a plan that levels a single operator promises."""

    levelled_operator_id: str | None
    operator_skew_before_pct: float | None
    operator_skew_pct: float | None
    levelling_limit_pct: float | None


class RouteFigures(TypedDict):
    """Number and cost of a plan's routes."""

    routes: int
    rerouted_keys: int
    route_bytes: int
    route_pause_s: float


class WeightedFigures(TypedDict):
    """What the weights of load and traffic compare, beside the load distance."""

    traffic_saved_before_pct: float | None
    traffic_saved_pct: float | None
    drained_moves: int | None


class WireFigures(TypedDict):
    """Bytes between nodes without the plan and with it; None if no traffic was measured."""

    wire_bytes_before_per_s: float | None
    wire_bytes_per_s: float | None


def levelling_figures(objective: Objective, plan: Plan) -> LevellingFigures:
    """The operator that the plan is made for, and its skew; None for other plans."""
    levelled = None if plan.skew is None else plan.skew.levelled
    return {
        "levelled_operator_id": None if levelled is None else levelled.operator_id,
        "operator_skew_before_pct": None if levelled is None else levelled.before_pct,
        "operator_skew_pct": None if levelled is None else levelled.after_pct,
        "levelling_limit_pct": levelling_limit(
            objective, None if levelled is None else levelled.operator_id
        ),
    }


def levelling_limit(objective: Objective, operator_id: str | None) -> float | None:
    """Load distance up to which a plan may level an operator; None for a plan that levels none."""
    return None if operator_id is None else objective.levelling_limit


def trade_figures(objective: Objective) -> TradeFigures:
    """How plans of the objective trade load for traffic."""
    weights = objective.weights if objective.is_joint else None
    is_bounded = objective.is_joint and weights is None
    return {
        "trade": objective.trade,
        "max_load_distance_pct": objective.max_load_distance if is_bounded else None,
        "traffic_weight": None if weights is None else weights.traffic,
        "load_weight": None if weights is None else weights.load,
    }


def weighted_figures(objective: Objective, plan: Plan) -> WeightedFigures:
    """Traffic saved before and after the plan; None if the objective has no weights."""
    if not objective.is_weighted:
        return {
            "traffic_saved_before_pct": None, "traffic_saved_pct": None, "drained_moves": None,
        }  # fmt: skip
    problem, assignment, costs = plan.problem, plan.result.assignment, objective.costs
    saved_before, saved = (
        saved_traffic(of, placed, costs.within_rack, costs.between_racks)
        for of, placed in ((problem, problem.current), (plan.rerouted, assignment))
    )
    left = problem.draining[problem.current] & (assignment != problem.current)
    return {
        "traffic_saved_before_pct": saved_before,
        "traffic_saved_pct": saved,
        "drained_moves": int(np.count_nonzero(left)),
    }


def route_figures(job_round: Round, plan: Plan) -> RouteFigures:
    """Number and cost of the plan's routes, compared with the routes in force."""
    moves = key_moves_between(plan.problem, job_round.statistics, job_round.routing, plan.routing)
    n_bytes, pause_s = route_cost(plan.problem, moves)
    return {
        "routes": sum(map(len, plan.routing.values())),
        "rerouted_keys": len(moves),
        "route_bytes": n_bytes,
        "route_pause_s": pause_s,
    }


def wire_figures(wire: Wire, node_of: Mapping[str, str], rerouted: Problem | None) -> WireFigures:
    """Bytes between nodes.

    Args:
        wire: the measured traffic between key groups.
        node_of: the node of each key group under the plan.
        rerouted: the problem with the traffic as the plan's routes change it; None if the plan
            changes no route.
    """
    if not wire.flows:
        return {"wire_bytes_before_per_s": None, "wire_bytes_per_s": None}
    after = wire if rerouted is None else wire.rerouted(_rates(rerouted))
    return {
        "wire_bytes_before_per_s": wire.bytes_per_s,
        "wire_bytes_per_s": after.bytes_under(node_of),
    }


def _rates(problem: Problem) -> dict[tuple[str, str], float]:
    """Records a second by the names of the two key groups."""
    if problem.traffic_from is None or problem.traffic_to is None or problem.traffic_rate is None:
        return {}
    names, rates = problem.key_group_ids, problem.traffic_rate.tolist()
    ends = zip(problem.traffic_from.tolist(), problem.traffic_to.tolist(), strict=True)
    found: dict[tuple[str, str], float] = {}
    for (source, target), rate in zip(ends, rates, strict=True):
        flow = names[source], names[target]
        found[flow] = found.get(flow, 0.0) + rate
    return found
