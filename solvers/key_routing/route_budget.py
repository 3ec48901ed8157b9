"""What is left of a plan's budget for moves of keys, after those of its key groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from solvers.key_routing.key_move_selector import KeyMoves
from solvers.key_routing.rerouting import KeyMap, KeyMove
from solvers.model.budget import Budget
from solvers.model.key_statistics import Routing
from solvers.model.problem import Problem
from solvers.planner.allocation import Allocation


@dataclass(frozen=True, slots=True)
class RouteBudget:
    """A plan so far against its budget of bytes and pause, and the most routes of an operator."""

    problem: Problem
    planned: Allocation
    max_routes: int
    budget: Budget

    def affordable(self, wanted: Sequence[KeyMoves]) -> tuple[list[KeyMoves], str]:
        """Keys in the order given, without those that go beyond; and what the first went beyond."""
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
        """What the plan, all its keys routed, goes beyond; routes in force may stay."""
        n_bytes, pause_s = route_cost(self.problem, self.planned.route_moves)
        found = self.cost_violation(n_bytes, pause_s)
        for operator, routes in self.planned.routing.items():
            if len(routes) > max(self.max_routes, len(before.get(operator, {}))):
                return self.route_count_violation(operator)
        return found

    def cost_violation(self, key_bytes: int, key_pause_s: float) -> str | None:
        """The limit that this cost of keys breaks together with the key groups; None if none."""
        result, budget = self.planned.result, self.budget
        n_bytes = result.bytes + key_bytes
        pause_s = result.pause_s - result.forced_pause_s + key_pause_s
        if budget.bytes is not None and n_bytes > budget.bytes:
            return f"{n_bytes:,} bytes would move, and the budget is {budget.bytes:,}"
        if budget.pause_s is not None and pause_s > budget.pause_s:
            return f"the pause would be {pause_s:.3f} s, and the budget is {budget.pause_s:g} s"
        return None

    def route_count_violation(self, operator: str) -> str:
        """That an operator has as many routes as it may."""
        return f"{operator} would have more than {self.max_routes:,} routes"


class _BudgetUse:
    """Bytes, key groups touched and routes while keys are added."""

    def __init__(self, route_budget: RouteBudget) -> None:
        self.route_budget, planned = route_budget, route_budget.planned
        self.keys = KeyMap(route_budget.problem, planned.routing)
        self.bytes = sum(move.bytes for move in planned.route_moves)
        self.touched = {row for move in planned.route_moves for row in (move.source, move.target)}
        self.routes = {operator: len(routes) for operator, routes in planned.routing.items()}
        self.route_limit = {
            operator: max(route_budget.max_routes, count) for operator, count in self.routes.items()
        }

    def violation(self, moves: KeyMoves) -> str | None:
        """What these moves more would go beyond; None where they fit."""
        for move in moves:
            count = self.routes.get(move.operator, 0) + self._added_routes(move)
            if count > self.route_limit.get(move.operator, self.route_budget.max_routes):
                return self.route_budget.route_count_violation(move.operator)
        problem = self.route_budget.problem
        n_bytes = math.ceil(self.bytes + sum(move.bytes for move in moves))
        rows = {row for move in moves for row in (move.source, move.target)}
        pause_s = _pause_s(problem, len(self.touched | rows), n_bytes)
        return self.route_budget.cost_violation(n_bytes, pause_s)

    def add(self, moves: KeyMoves) -> None:
        """Add these moves."""
        for move in moves:
            self.bytes += move.bytes
            self.touched |= {move.source, move.target}
            more = self._added_routes(move)
            self.routes[move.operator] = self.routes.get(move.operator, 0) + more

    def _added_routes(self, move: KeyMove) -> int:
        """A key that comes to where its hash is needs no route; one that has a route keeps one."""
        rows = self.keys.groups[move.operator]
        is_home = rows[self.keys.hashed(move.operator, move.key)] == move.target
        has_route = move.key in self.keys.routing.get(move.operator, {})
        return int(not is_home) - int(has_route)


def route_cost(problem: Problem, moves: Sequence[KeyMove]) -> tuple[int, float]:
    """Bytes that keys take along, and the pause: key groups they leave or join are rewritten."""
    n_bytes = math.ceil(sum(move.bytes for move in moves))
    touched = {row for move in moves for row in (move.source, move.target)}
    return n_bytes, _pause_s(problem, len(touched), n_bytes)


def _pause_s(problem: Problem, touched: int, n_bytes: int) -> float:
    return problem.pause_c0_s * touched + problem.pause_s_per_byte * n_bytes
