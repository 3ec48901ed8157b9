"""A plan's routes: keys that come to other key groups after the key groups have been placed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers import metrics
from solvers.budget import Budget
from solvers.collocate.costs import predicted_load, traffic_price
from solvers.collocate.graph import TrafficGraph
from solvers.collocate.keys.counted import KeyStatistics, RoutedEdge, Routing
from solvers.collocate.keys.key_memory import KeyMemory
from solvers.collocate.keys.rerouting import (
    KeyMap,
    KeyMove,
    Shares,
    fullest_shares,
    problem_after,
    reroute,
    routing_after,
    why_not,
)
from solvers.collocate.keys.wishes import Wishes
from solvers.objective import Objective
from solvers.planning import Planned
from solvers.problem import IntArray, Problem
from solvers.result import make_result

ROUTE_SHARES = (1.0, 0.6, 0.35, 0.2, 0.1, 0.05)
"""Of the keys that gain, the best so many, until load and budget bear them."""

ROUNDING = 1e-9
"""Relative: sums of the same rates in another order differ by less."""


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """``edges`` whose keys are routed; ``max_routes`` an operator; ``imbalance`` of a stage."""

    edges: tuple[RoutedEdge, ...] = ()
    max_routes: int = 100_000
    imbalance: float = 1.1


def with_routes(
    objective: Objective,
    problem: Problem,
    planned: Planned,
    statistics: KeyStatistics,
    routing: Routing,
    options: RoutingOptions,
    budget: Budget,
    seed: int = 0,
) -> Planned:
    """The plan with its keys routed: the routes in force, and those that bring keys together.

    Which keys belong together is said by all the periods of the statistics, as fast as forgetting
    served best; what a plan promises is said by the newest alone. Keys move only where the load
    distance stays as allowed and what is left of the budget pays.
    """
    kept, now = replace(planned, routing=routing), problem
    if not objective.is_joint or objective.gate is None or not planned.result.is_solved:
        return kept
    for edge in options.edges:
        reason = why_not(problem, planned.result.assignment, statistics, edge)
        if reason is not None:
            kept = _with_words(kept, reason)
            continue
        memory = KeyMemory.of(statistics, edge, problem.n_nodes, options.imbalance, seed=seed)
        found = reroute(
            problem, planned.result.assignment, statistics, kept.routing, edge, objective.gate,
            memory, imbalance=options.imbalance, seed=seed,
        )  # fmt: skip
        kept = replace(kept, held_back=(*kept.held_back, *found.held))
        obstacle = None
        wishes = _wishes(objective, problem, kept, statistics, routing, memory, edge, options)
        for share in ROUTE_SHARES if found.moves else ():
            wanted = found.moves[: max(1, round(share * len(found.moves)))]
            chosen = wishes.bearable(wanted)
            if not chosen:
                obstacle = obstacle or "no node could bear them"
                continue
            moves = (*kept.route_moves, *(move for of_key in chosen for move in of_key))
            candidate, after = _routed(objective, problem, kept, statistics, routing, moves)
            obstacle = _obstacle(objective, problem, candidate, after, kept, now, options, budget)
            if obstacle is None and not _is_level(
                problem, candidate, kept, memory, edge, options.imbalance
            ):
                obstacle = "a stage would be less level than allowed"
            if obstacle is None:
                kept, now = candidate, after
                if memory.periods > 1:
                    kept = _with_words(kept, str(memory))
                break
        if obstacle is not None:
            ends = f"{len(found.moves):,} keys from {edge.ends[0]} to {edge.ends[1]}"
            kept = _with_words(kept, f"{ends} would gain by a route and get none: {obstacle}")
    return kept


def _wishes(
    objective: Objective,
    problem: Problem,
    planned: Planned,
    statistics: KeyStatistics,
    routing: Routing,
    memory: KeyMemory,
    edge: RoutedEdge,
    options: RoutingOptions,
) -> Wishes:
    """What the nodes bear beside the plan as it is so far, with keys of other edges routed."""
    keyed = problem_after(problem, statistics, routing, planned.routing)
    assignment, distance = planned.result.assignment, planned.result.load_distance
    allowed = np.inf if objective.is_weighted else max(objective.max_load_distance, distance)
    return Wishes(
        under_plan(objective, problem, assignment, keyed), assignment, allowed, objective.gate,
        memory, edge, options.imbalance,
        now=KeyMap(problem, planned.routing),
        in_force=Shares(statistics, KeyMap(problem, routing)),
    )  # fmt: skip


def _with_words(planned: Planned, words: str) -> Planned:
    """The plan with this added to its reason."""
    said = "; ".join(part for part in (planned.result.reason, words) if part)
    return replace(planned, result=replace(planned.result, reason=said))


def _routed(
    objective: Objective,
    problem: Problem,
    planned: Planned,
    statistics: KeyStatistics,
    routing: Routing,
    moves: tuple[KeyMove, ...],
) -> tuple[Planned, Problem]:
    """The plan with these moves, and the problem with loads and traffic under it."""
    will_be = routing_after(problem, routing, moves)
    after = under_plan(
        objective, problem, planned.result.assignment,
        problem_after(problem, statistics, routing, will_be),
    )  # fmt: skip
    before = planned.result
    result = make_result(
        problem,
        before.assignment.copy(),
        method=before.method,
        bound=0.0,  # of the load as it is: with keys elsewhere it says nothing
        seconds=before.seconds,
        trace=before.trace,
        reason=before.reason,
        after=after,
        is_changed=True,
    )
    return replace(planned, result=result, routing=will_be, route_moves=moves), after


def under_plan(
    objective: Objective, problem: Problem, assignment: IntArray, rerouted: Problem
) -> Problem:
    """Loads and traffic under a plan: what is serialised then, and what keys took along."""
    load = predicted_load(problem, TrafficGraph.of(problem), objective.costs, assignment)
    return replace(rerouted, load=np.maximum(0.0, load + (rerouted.load - problem.load)))


def _obstacle(
    objective: Objective,
    problem: Problem,
    candidate: Planned,
    after: Problem,
    kept: Planned,
    now: Problem,
    options: RoutingOptions,
    budget: Budget,
) -> str | None:
    """What a candidate breaks, in words; None where it is allowed."""
    n_bytes, pause_s = route_cost(problem, candidate.route_moves)
    result = candidate.result
    n_bytes += result.bytes
    pause_s += result.pause_s - result.forced_pause_s
    if not _is_good_trade(objective, candidate, after, kept, now):
        return f"the load distance would be {result.load_distance:.2f} %"
    if not _is_cheaper(objective, result.assignment, now, after):
        return "the traffic would not become cheaper"
    if metrics.over_cap(problem, result.assignment, after.load).any():
        return "a node would carry more than its cap"
    if not _are_few(candidate.routing, kept.routing, options.max_routes):
        return f"an operator would have more than {options.max_routes:,} routes"
    if budget.bytes is not None and n_bytes > budget.bytes:
        return f"{n_bytes:,} bytes would move, and the budget is {budget.bytes:,}"
    if budget.pause_s is not None and pause_s > budget.pause_s:
        return f"the pause would be {pause_s:.3f} s, and the budget is {budget.pause_s:g} s"
    return None


def _is_good_trade(
    objective: Objective, candidate: Planned, after: Problem, kept: Planned, now: Problem
) -> bool:
    """Load is as level as it has to be; by weights, what the traffic gains is worth its load."""
    distance, was = candidate.result.load_distance, kept.result.load_distance
    if not objective.is_weighted or objective.weights is None:
        return distance <= max(objective.max_load_distance, was)
    costs = objective.costs
    saved_before, saved = (
        metrics.saved_traffic(of, plan.result.assignment, costs.within_rack, costs.between_racks)
        for of, plan in ((now, kept), (after, candidate))
    )
    weights = objective.weights
    before = weights.score(saved_before or 0.0, was)
    return weights.score(saved or 0.0, distance) >= before - ROUNDING * abs(before)


def _is_level(
    problem: Problem,
    candidate: Planned,
    kept: Planned,
    memory: KeyMemory,
    edge: RoutedEdge,
    imbalance: float,
) -> bool:
    """Either stage is within its bound in every memory, or no worse than it was: a share of the
    moves that were found together need not be as level as all of them."""
    before, after = (
        fullest_shares(problem, plan.result.assignment, memory, plan.routing, edge, imbalance)
        for plan in (kept, candidate)
    )
    return bool((after <= np.maximum(1.0, before) * (1 + ROUNDING)).all())


def _are_few(routing: Routing, before: Routing, max_routes: int) -> bool:
    """Where the limit was lowered below what is in force, that may stay but not grow."""
    return all(
        len(routes) <= max(max_routes, len(before.get(operator, {})))
        for operator, routes in routing.items()
    )


def _is_cheaper(objective: Objective, assignment: IntArray, now: Problem, after: Problem) -> bool:
    """Keys that come together may leave the racks of other partners: the whole price falls."""
    before = traffic_price(now, assignment, objective.costs)
    return traffic_price(after, assignment, objective.costs) < before * (1 - ROUNDING)


def route_cost(problem: Problem, moves: Sequence[KeyMove]) -> tuple[int, float]:
    """Bytes that keys take along, and the pause: key groups they leave or join are rewritten."""
    n_bytes = math.ceil(sum(move.bytes for move in moves))
    touched = {row for move in moves for row in (move.source, move.target)}
    return n_bytes, problem.pause_c0_s * len(touched) + problem.pause_s_per_byte * n_bytes
