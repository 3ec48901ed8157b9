"""The part of a plan's budget that is left for key moves after its key group moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from solvers.key_routing.key_map import KeyMap, KeyMove, KeyMoves
from solvers.key_routing.routed_plan import RoutedPlan
from solvers.key_routing.routing_effect import key_pause_s, route_cost
from solvers.model.budget import Budget
from solvers.model.key_statistics import Routing
from solvers.model.problem import Problem


@dataclass(frozen=True, slots=True)
class RouteBudget:
    """Checks key moves against a budget.

    Attributes:
        problem: The problem of the plan.
        plan: The plan so far; its moves count against the budget.
        max_routes: Most routes of one operator.
        budget: Limits of bytes and pause for the whole plan.
    """

    problem: Problem
    plan: RoutedPlan
    max_routes: int
    budget: Budget

    def affordable(self, wanted: Sequence[KeyMoves]) -> tuple[list[KeyMoves], str]:
        """Add keys in the given order while each fits the budget.

        Returns:
            The keys that fit, and the first limit that a key would break (empty if none).
        """
        use = _BudgetUse(self)
        chosen, first_violation = [], ""
        for moves in wanted:
            violation = use.violation(moves)
            if violation is None:
                use.add(moves)
                chosen.append(moves)
            first_violation = first_violation or violation or ""
        return chosen, first_violation

    def violation(self, before: Routing) -> str | None:
        """Return the limit that the plan breaks; None if none. Routes of ``before`` may stay."""
        for operator, routes in self.plan.routing.items():
            if len(routes) > max(self.max_routes, len(before.get(operator, {}))):
                return self.route_count_violation(operator)
        return self.cost_violation(*route_cost(self.problem, self.plan.route_moves))

    def cost_violation(self, key_bytes: int, key_pause_s: float) -> str | None:
        """Return the limit that keys and key groups together break; None if none."""
        result, budget = self.plan.result, self.budget
        n_bytes = result.bytes + key_bytes
        pause_s = result.pause_s - result.forced_pause_s + key_pause_s
        if budget.bytes is not None and n_bytes > budget.bytes:
            return f"{n_bytes:,} bytes would move, and the budget is {budget.bytes:,}"
        if budget.pause_s is not None and pause_s > budget.pause_s:
            return f"the pause would be {pause_s:.3f} s, and the budget is {budget.pause_s:g} s"
        return None

    def route_count_violation(self, operator: str) -> str:
        """Return the message that an operator has too many routes."""
        return f"{operator} would have more than {self.max_routes:,} routes"


class _BudgetUse:
    """Counts bytes, rewritten key groups and routes while keys are added."""

    def __init__(self, budget: RouteBudget) -> None:
        self.budget, plan = budget, budget.plan
        self.keys = KeyMap(budget.problem, plan.routing)
        self.bytes = sum(move.bytes for move in plan.route_moves)
        self.touched = {row for move in plan.route_moves for row in (move.source, move.target)}
        self.routes = {operator: len(routes) for operator, routes in plan.routing.items()}
        self.route_limit = {
            operator: max(budget.max_routes, count) for operator, count in self.routes.items()
        }

    def violation(self, moves: KeyMoves) -> str | None:
        """Return the limit that these moves would break; None if they fit."""
        for move in moves:
            count = self.routes.get(move.operator, 0) + self._added_routes(move)
            if count > self.route_limit.get(move.operator, self.budget.max_routes):
                return self.budget.route_count_violation(move.operator)
        n_bytes = math.ceil(self.bytes + sum(move.bytes for move in moves))
        rows = {row for move in moves for row in (move.source, move.target)}
        pause_s = key_pause_s(self.budget.problem, len(self.touched | rows), n_bytes)
        return self.budget.cost_violation(n_bytes, pause_s)

    def add(self, moves: KeyMoves) -> None:
        """Count these moves."""
        for move in moves:
            self.bytes += move.bytes
            self.touched |= {move.source, move.target}
            added = self._added_routes(move)
            self.routes[move.operator] = self.routes.get(move.operator, 0) + added

    def _added_routes(self, move: KeyMove) -> int:
        """Return 1, 0 or -1: a key at its hashed key group needs no route."""
        rows = self.keys.groups[move.operator]
        is_home = rows[self.keys.hashed(move.operator, move.key)] == move.target
        has_route = move.key in self.keys.routing.get(move.operator, {})
        return int(not is_home) - int(has_route)
