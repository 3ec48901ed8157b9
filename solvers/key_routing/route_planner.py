"""Adds routes for keys to a plan whose key groups are placed already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.key_routing.key_map import KeyMap, KeyMove, KeyMoves
from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.key_move_selector import KeyMoveSelector
from solvers.key_routing.key_shares import KeyShares
from solvers.key_routing.rerouting import (
    PlacedEdge,
    fullest_shares,
    reroute,
    rerouting_obstacle,
)
from solvers.key_routing.route_budget import RouteBudget
from solvers.key_routing.routed_plan import RoutedPlan, RoutingRequest
from solvers.key_routing.routing_effect import problem_after, problem_under_plan, routing_after
from solvers.model import metrics
from solvers.model.key_statistics import RoutedEdge
from solvers.model.objective import Objective
from solvers.model.predicted_load import traffic_price
from solvers.model.problem import IntArray, Problem
from solvers.model.result import SolverRun, make_result

ROUTE_SHARES = (1.0, 0.6, 0.35, 0.2, 0.1, 0.05)
"""Shares of the affordable keys to try, best keys first. Each set keeps the limits of
the nodes; rack prices or the weights of the objective can still reject the larger sets."""

ROUNDING = 1e-9
"""Relative: sums of the same rates in another order differ by less."""


def plan_key_routes(plan: RoutedPlan, request: RoutingRequest) -> RoutedPlan:
    """Return the plan with the routes in force, and with new routes that bring keys together.

    All periods of the statistics, decayed by the best back-tested rate, decide which keys belong
    together. The newest period alone gives the figures of the plan. Keys move only while the load
    distance stays within the objective and the rest of the budget pays for them.

    Args:
        plan: The placement of the key groups; its own routing is replaced.
        request: What decides which keys are routed.

    Returns:
        The plan with its routes. Where an edge gets none, the reason of the result says why.
    """
    plan = replace(plan, routing=request.routing)
    objective = request.objective
    if not objective.is_joint or objective.gate is None or not plan.result.is_solved:
        return plan
    state = _PlanState(plan, request.problem)
    for edge in request.options.edges:
        state = _with_edge(state, request, edge)
    return state.plan


@dataclass(frozen=True, eq=False, slots=True)
class _PlanState:
    """A plan, and the problem with loads and traffic under it."""

    plan: RoutedPlan
    problem: Problem


@dataclass(frozen=True, eq=False, slots=True)
class _EdgeRouter:
    """Routes the keys of one edge on top of the plan so far."""

    state: _PlanState
    request: RoutingRequest
    edge: RoutedEdge
    memory: KeyMemory

    def routed(self) -> _PlanState:
        """Return the plan with keys of this edge routed, or with the reason why none is."""
        request, plan = self.request, self.state.plan
        gate = request.objective.gate
        if gate is None:
            return self.state
        placed = _placed_edge(plan, request, self.edge)
        rerouting = reroute(
            placed,
            gate,
            self.memory,
            imbalance=request.options.imbalance,
            seed=request.seed,
            method=request.options.method,
        )
        state = replace(
            self.state, plan=replace(plan, held_back=(*plan.held_back, *rerouting.held))
        )
        first_obstacle = None
        for moves, set_obstacle in self._move_sets(rerouting.moves):
            obstacle = set_obstacle
            if obstacle is None:
                candidate = self._candidate(state.plan, (*plan.route_moves, *moves))
                obstacle = self._obstacle(candidate)
                if obstacle is None:
                    return self._with_history(candidate)
            first_obstacle = first_obstacle or obstacle
        if first_obstacle is None:
            return state
        ends = f"{len(rerouting.moves):,} keys from {self.edge.ends[0]} to {self.edge.ends[1]}"
        reason = f"{ends} would gain by a route and get none: {first_obstacle}"
        return replace(state, plan=_with_reason(state.plan, reason))

    def _with_history(self, candidate: _PlanState) -> _PlanState:
        reason = str(self.memory) if self.memory.periods > 1 else ""
        return replace(candidate, plan=_with_reason(candidate.plan, reason))

    def _move_sets(self, keys: Sequence[KeyMoves]) -> Iterator[tuple[list[KeyMove], str | None]]:
        """Yield sets of moves to try, largest first, each with the obstacle to it if known."""
        if not keys:
            return
        request = self.request
        budget = RouteBudget(
            request.problem, self.state.plan, request.options.max_routes, request.budget
        )
        affordable, violation = budget.affordable(keys)
        if not affordable:
            yield [], violation
            return
        selector = self._selector()
        for share in ROUTE_SHARES:
            wanted = affordable[: max(1, round(share * len(affordable)))]
            chosen = [move for moves in selector.select(wanted) for move in moves]
            yield chosen, None if chosen else "no node has room for them"

    def _selector(self) -> KeyMoveSelector:
        """Return the limits of the nodes under the plan so far."""
        request, plan = self.request, self.state.plan
        objective, problem, statistics = request.objective, request.problem, request.statistics
        rerouted = problem_after(problem, statistics, request.routing, plan.routing)
        assignment, distance = plan.result.assignment, plan.result.load_distance
        allowed = np.inf if objective.is_weighted else max(objective.max_load_distance, distance)
        return KeyMoveSelector(
            problem=problem_under_plan(objective, problem, assignment, rerouted),
            assignment=assignment,
            allowed_distance=allowed,
            gate=objective.gate,
            memory=self.memory,
            edge=self.edge,
            imbalance=request.options.imbalance,
            now=KeyMap(problem, plan.routing),
            in_force=KeyShares(statistics, KeyMap(problem, request.routing)),
        )

    def _candidate(self, plan: RoutedPlan, moves: tuple[KeyMove, ...]) -> _PlanState:
        """Return the plan with these key moves, and the problem under it."""
        request, before = self.request, plan.result
        problem = request.problem
        routing = routing_after(problem, request.routing, moves)
        rerouted = problem_after(problem, request.statistics, request.routing, routing)
        after = problem_under_plan(request.objective, problem, before.assignment, rerouted)
        result = make_result(
            problem,
            before.assignment.copy(),
            SolverRun(
                method=before.method,
                bound=0.0,
                seconds=before.seconds,
                trace=before.trace,
                reason=before.reason,
                # Routes change which key groups exchange records, so nothing more is proven.
                collocation_bound=100.0,
            ),
            after=after,
            is_changed=True,
        )
        return _PlanState(replace(plan, result=result, routing=routing, route_moves=moves), after)

    def _obstacle(self, candidate: _PlanState) -> str | None:
        """Return the rule that a candidate breaks; None where it is allowed."""
        request, before = self.request, self.state
        objective, assignment = request.objective, candidate.plan.result.assignment
        if not _is_good_trade(objective, candidate, before):
            distance = f"{candidate.plan.result.load_distance:.2f} %"
            if objective.is_weighted:
                return f"by the weights, what they save is not worth a load distance of {distance}"
            return f"the load distance would be {distance}"
        if not _is_cheaper(objective, assignment, before.problem, candidate.problem):
            return "the traffic would not become cheaper"
        if metrics.over_cap(request.problem, assignment, candidate.problem.load).any():
            return "a node would carry more than its cap"
        if not self._is_level(candidate.plan):
            return "a stage would be less level than allowed"
        budget = RouteBudget(
            request.problem, candidate.plan, request.options.max_routes, request.budget
        )
        return budget.violation(before.plan.routing)

    def _is_level(self, candidate: RoutedPlan) -> bool:
        """Check that both stages keep their bound, or are no worse than before, in every view.

        A part of the moves that were found together may be less level than all of them.
        """
        request = self.request
        before, after = (
            fullest_shares(
                request.problem, plan.result.assignment, self.memory, plan.routing, self.edge,
                request.options.imbalance,
            )
            for plan in (self.state.plan, candidate)
        )  # fmt: skip
        return bool((after <= np.maximum(1.0, before) * (1 + ROUNDING)).all())


def _with_edge(state: _PlanState, request: RoutingRequest, edge: RoutedEdge) -> _PlanState:
    """Return the plan with keys of this edge routed, or with the reason why none is."""
    reason = rerouting_obstacle(_placed_edge(state.plan, request, edge))
    if reason is not None:
        return replace(state, plan=_with_reason(state.plan, reason))
    memory = KeyMemory.of(
        request.statistics, edge, request.problem.n_nodes, request.options.imbalance,
        seed=request.seed,
    )  # fmt: skip
    return _EdgeRouter(state, request, edge, memory).routed()


def _placed_edge(plan: RoutedPlan, request: RoutingRequest, edge: RoutedEdge) -> PlacedEdge:
    return PlacedEdge(
        request.problem, plan.result.assignment, request.statistics, plan.routing, edge
    )


def _with_reason(plan: RoutedPlan, reason: str) -> RoutedPlan:
    """Return the plan with a text added to its reason."""
    joined = "; ".join(part for part in (plan.result.reason, reason) if part)
    return replace(plan, result=replace(plan.result, reason=joined))


def _is_good_trade(objective: Objective, candidate: _PlanState, before: _PlanState) -> bool:
    """Check that the load stays level enough, or by weights that saved traffic is worth it."""
    distance, was = (state.plan.result.load_distance for state in (candidate, before))
    if not objective.is_weighted or objective.weights is None:
        return distance <= max(objective.max_load_distance, was) * (1 + ROUNDING)
    costs = objective.costs
    saved_before, saved = (
        metrics.saved_traffic(
            state.problem, state.plan.result.assignment, costs.within_rack, costs.between_racks
        )
        for state in (before, candidate)
    )
    weights = objective.weights
    score_before = weights.score(saved_before or 0.0, was)
    return weights.score(saved or 0.0, distance) >= score_before - ROUNDING * abs(score_before)


def _is_cheaper(objective: Objective, assignment: IntArray, now: Problem, after: Problem) -> bool:
    """Check that the price of all traffic falls: a key may leave the rack of other partners."""
    before = traffic_price(now, assignment, objective.costs)
    return traffic_price(after, assignment, objective.costs) < before * (1 - ROUNDING)
