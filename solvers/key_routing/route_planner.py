"""A plan's routes: keys that come to other key groups after the key groups have been placed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.key_move_selector import KeyMoves, KeyMoveSelector
from solvers.key_routing.rerouting import (
    KeyMap,
    KeyMove,
    KeyShares,
    fullest_shares,
    problem_after,
    reroute,
    routing_after,
    why_not,
)
from solvers.key_routing.route_budget import RouteBudget
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.key_statistics import KeyStatistics, RoutedEdge, Routing
from solvers.model.objective import Objective
from solvers.model.problem import IntArray, Problem
from solvers.model.result import make_result
from solvers.model.traffic_costs import predicted_load, traffic_price
from solvers.model.traffic_graph import TrafficGraph
from solvers.planner.allocation import Allocation

ROUTE_SHARES = (1.0, 0.6, 0.35, 0.2, 0.1, 0.05)
"""Of the keys that gain and that the budget pays for, the best so many: what nodes cannot bear has
gone back by then, and prices between racks or a trade by weights may still speak against them."""

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
    planned: Allocation,
    statistics: KeyStatistics,
    routing: Routing,
    options: RoutingOptions,
    budget: Budget,
    seed: int = 0,
) -> Allocation:
    """The plan with its keys routed: the routes in force, and those that bring keys together.

    Which keys belong together is said by all the periods of the statistics, as fast as forgetting
    served best; what a plan promises is said by the newest alone. Keys move only where the load
    distance stays as allowed and what is left of the budget pays.
    """
    kept = replace(planned, routing=routing)
    if not objective.is_joint or objective.gate is None or not planned.result.is_solved:
        return kept
    router = _Router(objective, problem, statistics, routing, options, budget, seed)
    now = problem
    for edge in options.edges:
        kept, now = router.with_edge(kept, now, edge)
    return kept


def _with_words(planned: Allocation, words: str) -> Allocation:
    """The plan with this added to its reason."""
    said = "; ".join(part for part in (planned.result.reason, words) if part)
    return replace(planned, result=replace(planned.result, reason=said))


@dataclass(frozen=True, slots=True)
class _Router:
    """Routes the keys of one edge after the other, each beside what the plan has by then.

    ``kept`` is the plan so far and ``now`` the problem with loads and traffic under it;
    ``routing`` is what is in force before the plan.
    """

    objective: Objective
    problem: Problem
    statistics: KeyStatistics
    routing: Routing
    options: RoutingOptions
    budget: Budget
    seed: int

    def with_edge(
        self, kept: Allocation, now: Problem, edge: RoutedEdge
    ) -> tuple[Allocation, Problem]:
        """The plan and its problem, with keys of this edge routed or words on why they are not."""
        problem, options = self.problem, self.options
        assignment, gate = kept.result.assignment, self.objective.gate
        reason = why_not(problem, assignment, self.statistics, edge)
        if reason is not None or gate is None:
            return _with_words(kept, reason or ""), now
        memory = KeyMemory.of(
            self.statistics, edge, problem.n_nodes, options.imbalance, seed=self.seed
        )
        found = reroute(
            problem, assignment, self.statistics, kept.routing, edge, gate,
            memory, imbalance=options.imbalance, seed=self.seed,
        )  # fmt: skip
        kept = replace(kept, held_back=(*kept.held_back, *found.held))
        first_obstacle = None
        for moves, candidate_obstacle in self._sets(kept, memory, edge, found.moves):
            obstacle = candidate_obstacle
            if obstacle is None:
                candidate, after = self._routed(kept, (*kept.route_moves, *moves))
                obstacle = self._obstacle(candidate, after, kept, now, memory, edge)
                if obstacle is None:
                    words = str(memory) if memory.periods > 1 else ""
                    return _with_words(candidate, words), after
            first_obstacle = first_obstacle or obstacle
        if first_obstacle is not None:
            ends = f"{len(found.moves):,} keys from {edge.ends[0]} to {edge.ends[1]}"
            kept = _with_words(kept, f"{ends} would gain by a route and get none: {first_obstacle}")
        return kept, now

    def _sets(
        self, kept: Allocation, memory: KeyMemory, edge: RoutedEdge, found: Sequence[KeyMoves]
    ) -> Iterator[tuple[list[KeyMove], str | None]]:
        """Moves to try, most first, or what stands against there being any."""
        if not found:
            return
        route_budget = RouteBudget(self.problem, kept, self.options.max_routes, self.budget)
        affordable, beyond = route_budget.affordable(found)
        if not affordable:
            yield [], beyond
            return
        selector = self._selector(kept, memory, edge)
        for share in ROUTE_SHARES:
            wanted = affordable[: max(1, round(share * len(affordable)))]
            chosen = [move for moves in selector.select_feasible(wanted) for move in moves]
            yield chosen, None if chosen else "no node could bear them"

    def _selector(self, kept: Allocation, memory: KeyMemory, edge: RoutedEdge) -> KeyMoveSelector:
        """What the nodes bear beside the plan as it is so far, with keys of other edges routed."""
        objective, problem, statistics = self.objective, self.problem, self.statistics
        keyed = problem_after(problem, statistics, self.routing, kept.routing)
        assignment, distance = kept.result.assignment, kept.result.load_distance
        allowed = np.inf if objective.is_weighted else max(objective.max_load_distance, distance)
        return KeyMoveSelector(
            under_plan(objective, problem, assignment, keyed), assignment, allowed, objective.gate,
            memory, edge, self.options.imbalance,
            now=KeyMap(problem, kept.routing),
            in_force=KeyShares(statistics, KeyMap(problem, self.routing)),
        )  # fmt: skip

    def _routed(self, kept: Allocation, moves: tuple[KeyMove, ...]) -> tuple[Allocation, Problem]:
        """The plan with these moves, and the problem with loads and traffic under it."""
        problem, before = self.problem, kept.result
        will_be = routing_after(problem, self.routing, moves)
        keyed = problem_after(problem, self.statistics, self.routing, will_be)
        after = under_plan(self.objective, problem, before.assignment, keyed)
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
        return replace(kept, result=result, routing=will_be, route_moves=moves), after

    def _obstacle(
        self,
        candidate: Allocation,
        after: Problem,
        kept: Allocation,
        now: Problem,
        memory: KeyMemory,
        edge: RoutedEdge,
    ) -> str | None:
        """What a candidate breaks, in words; None where it is allowed."""
        problem, assignment = self.problem, candidate.result.assignment
        if not _is_good_trade(self.objective, candidate, after, kept, now):
            distance = f"{candidate.result.load_distance:.2f} %"
            if self.objective.is_weighted:
                return f"by the weights, what they save is not worth a load distance of {distance}"
            return f"the load distance would be {distance}"
        if not _is_cheaper(self.objective, assignment, now, after):
            return "the traffic would not become cheaper"
        if metrics.over_cap(problem, assignment, after.load).any():
            return "a node would carry more than its cap"
        if not _is_level(problem, candidate, kept, memory, edge, self.options.imbalance):
            return "a stage would be less level than allowed"
        route_budget = RouteBudget(problem, candidate, self.options.max_routes, self.budget)
        return route_budget.violation(kept.routing)


def under_plan(
    objective: Objective, problem: Problem, assignment: IntArray, rerouted: Problem
) -> Problem:
    """Loads and traffic under a plan: what is serialised then, and what keys took along."""
    load = predicted_load(problem, TrafficGraph.of(problem), objective.costs, assignment)
    return replace(rerouted, load=np.maximum(0.0, load + (rerouted.load - problem.load)))


def _is_good_trade(
    objective: Objective, candidate: Allocation, after: Problem, kept: Allocation, now: Problem
) -> bool:
    """Load is as level as it has to be; by weights, what the traffic gains is worth its load."""
    distance, was = candidate.result.load_distance, kept.result.load_distance
    if not objective.is_weighted or objective.weights is None:
        return distance <= max(objective.max_load_distance, was) * (1 + ROUNDING)
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
    candidate: Allocation,
    kept: Allocation,
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


def _is_cheaper(objective: Objective, assignment: IntArray, now: Problem, after: Problem) -> bool:
    """Keys that come together may leave the racks of other partners: the whole price falls."""
    before = traffic_price(now, assignment, objective.costs)
    return traffic_price(after, assignment, objective.costs) < before * (1 - ROUNDING)
