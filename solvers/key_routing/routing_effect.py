"""What a change of routing does: key moves, their cost, and the loads and traffic that result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ballast.contracts.identity import split_key_group_name
from solvers.key_routing.key_map import KeyMap, KeyMove
from solvers.key_routing.key_shares import KeyShares
from solvers.model.key_statistics import KeyStatistics, Routing
from solvers.model.objective import Objective
from solvers.model.predicted_load import predicted_load
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.traffic_graph import TrafficGraph

Flow = tuple[int, int]
"""Rows of the key group that sends and of the key group that receives."""


def routing_after(problem: Problem, routing: Routing, moves: Sequence[KeyMove]) -> Routing:
    """Return the routing with these moves made.

    A key that returns to the key group of its hash needs no route.
    """
    keys = KeyMap(problem, routing)
    changed = {operator: dict(routes) for operator, routes in routing.items()}
    for move in moves:
        group = split_key_group_name(problem.key_group_ids[move.target])[1]
        routes = changed.setdefault(move.operator, {})
        if group == keys.hashed(move.operator, move.key):
            routes.pop(move.key, None)
        else:
            routes[move.key] = group
    return {operator: routes for operator, routes in changed.items() if routes}


def key_moves_between(
    problem: Problem, statistics: KeyStatistics, before: Routing, after: Routing
) -> list[KeyMove]:
    """Return a move for every key that two routings send to different key groups.

    Args:
        problem: The key groups.
        statistics: Counted keys, for the state that moves with each.
        before: Routes in force.
        after: Routes of the plan.
    """
    was, will_be = KeyMap(problem, before), KeyMap(problem, after)
    share = KeyShares(statistics, was)
    moves = []
    for operator in sorted(before.keys() | after.keys()):
        for key in sorted(before.get(operator, {}).keys() | after.get(operator, {}).keys()):
            source, target = was.row(operator, key), will_be.row(operator, key)
            if source != target:
                n_bytes = share.state_bytes(operator, key)
                moves.append(KeyMove(operator, key, source, target, n_bytes))
    return moves


def route_cost(problem: Problem, moves: Sequence[KeyMove]) -> tuple[int, float]:
    """Return the bytes that keys move, and the pause in seconds.

    Every key group that a key leaves or joins is rewritten, so each of them pauses.
    """
    n_bytes = math.ceil(sum(move.bytes for move in moves))
    touched = {row for move in moves for row in (move.source, move.target)}
    return n_bytes, key_pause_s(problem, len(touched), n_bytes)


def key_pause_s(problem: Problem, key_groups: int, n_bytes: int) -> float:
    """Return the pause of rewriting this many key groups and moving this many bytes."""
    return problem.pause_c0_s * key_groups + problem.pause_s_per_byte * n_bytes


def problem_after(
    problem: Problem, statistics: KeyStatistics, before: Routing, after: Routing
) -> Problem:
    """Return the problem with loads and traffic under the routing ``after``.

    A key takes its share of its key group's load with it, by records. A pair of keys takes its rate
    from the old pair of key groups to the new one.

    Args:
        problem: The problem as it was measured.
        statistics: Counted keys and key pairs.
        before: Routes in force when it was measured.
        after: Routes of the plan.

    Returns:
        The problem; ``problem`` itself if no key changes its key group.
    """
    moves = key_moves_between(problem, statistics, before, after)
    if not moves:
        return problem
    was, will_be = KeyMap(problem, before), KeyMap(problem, after)
    share = KeyShares(statistics, was)
    load = problem.load.copy()
    for move in moves:
        taken = share.load(move.operator, move.key)
        load[move.source] -= taken
        load[move.target] += taken
    source, target, rate = _traffic_after(problem, _rerouted_flows(statistics, was, will_be))
    return dataclasses.replace(
        problem,
        load=np.maximum(load, 0.0),
        traffic_from=source,
        traffic_to=target,
        traffic_rate=rate,
        # Some edges are new: nothing is known of their noise.
        noise=None if problem.noise is None else problem.noise.without_traffic(),
    )


def problem_under_plan(
    objective: Objective, problem: Problem, assignment: IntArray, rerouted: Problem
) -> Problem:
    """Return ``rerouted`` with the loads it has under an assignment.

    The loads are those predicted for the assignment, serialisation included, plus what keys brought
    to or took from each key group.

    Args:
        objective: Its costs of traffic predict the loads.
        problem: The problem as it was measured.
        assignment: The node of each key group under the plan.
        rerouted: The problem with loads and traffic under the plan's routes.
    """
    load = predicted_load(problem, TrafficGraph.of(problem), objective.costs, assignment)
    moved = rerouted.load - problem.load
    return dataclasses.replace(rerouted, load=np.maximum(0.0, load + moved))


def traffic_by_ends(problem: Problem) -> dict[Flow, float]:
    """Return the rate between each pair of key group rows; empty without traffic."""
    rates: dict[Flow, float] = {}
    if problem.traffic_from is None or problem.traffic_to is None or problem.traffic_rate is None:
        return rates
    ends = zip(problem.traffic_from.tolist(), problem.traffic_to.tolist(), strict=True)
    for flow, rate in zip(ends, problem.traffic_rate.tolist(), strict=True):
        rates[flow] = rates.get(flow, 0.0) + rate
    return rates


def _rerouted_flows(
    statistics: KeyStatistics, was: KeyMap, will_be: KeyMap
) -> dict[Flow, dict[Flow, float]]:
    """Return, by old flow and then new flow, the rate of the key pairs that change flows."""
    leaving: dict[Flow, dict[Flow, float]] = {}
    for (left, right), pairs in statistics.pairs.items():
        for (a, b), rate in pairs.items():
            old = was.row(left, a), was.row(right, b)
            new = will_be.row(left, a), will_be.row(right, b)
            if old != new:
                to_flow = leaving.setdefault(old, {})
                to_flow[new] = to_flow.get(new, 0.0) + rate
    return leaving


def _traffic_after(
    problem: Problem, leaving: dict[Flow, dict[Flow, float]]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return senders, receivers and rates of the traffic after the pairs changed flows."""
    rates = traffic_by_ends(problem)
    measured = dict(rates)
    for old, to_flow in leaving.items():
        # Pairs may come from other batches than the flow, so they take at most what it measured.
        available, wanted = measured.get(old, 0.0), sum(to_flow.values())
        share = min(1.0, available / wanted) if wanted > 0 else 0.0
        for new, rate in to_flow.items():
            rates[old] = rates.get(old, 0.0) - share * rate
            rates[new] = rates.get(new, 0.0) + share * rate
    flows = sorted(rates)
    return (
        np.array([flow[0] for flow in flows], dtype=np.int64),
        np.array([flow[1] for flow in flows], dtype=np.int64),
        np.array([max(0.0, rates[flow]) for flow in flows], dtype=np.float64),
    )
