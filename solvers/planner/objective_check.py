"""Checks the plan of a method that does not know the objective.

The joint search keeps the bound and the costs of a joint objective itself. The plan of another
method, such as ALBIC, is used only if it keeps what the objective promises; otherwise only the
necessary moves are made, and the reason says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from solvers.collocate.joint_bound import collocation_bound, load_distance_bound
from solvers.key_routing.routing_effect import problem_under_plan
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.objective import Objective
from solvers.model.predicted_load import traffic_price
from solvers.model.problem import IntArray, Problem
from solvers.model.result import Result, SolverRun, make_result
from solvers.rebalance.start import place_must_moves

ROUNDING = 1e-9
"""Relative: sums of the same loads in another order differ by less."""


def within_objective(
    objective: Objective, problem: Problem, budget: Budget, result: Result
) -> Result:
    """Return the result with the loads that the plan leaves, or the necessary moves alone.

    Args:
        objective: a joint objective.
        problem: the problem that was solved.
        budget: limits of the moves that are not forced.
        result: the plan of a method that does not know the objective.
    """
    if not result.is_solved:
        return result
    necessary = _UnderPlan.of(objective, problem, place_must_moves(problem, budget))
    plan = _UnderPlan.of(objective, problem, result.assignment)
    obstacle = _obstacle(plan, necessary)
    if obstacle is None:
        return plan.result(result, budget, result.reason)
    reason = f"the plan of {result.method} is not used, because {obstacle}"
    both = "; ".join(part for part in (result.reason, reason) if part)
    return necessary.result(result, budget, both)


def without_higher_distance(
    objective: Objective, problem: Problem, budget: Budget, result: Result
) -> Result:
    """Return the result, or the necessary moves alone if those have a smaller load distance.

    The arguments are those of ``within_objective``, for an objective of balance.
    """
    if not result.is_solved:
        return result
    necessary = _UnderPlan.of(objective, problem, place_must_moves(problem, budget))
    if result.load_distance <= necessary.distance * (1 + ROUNDING):
        return result
    reason = (
        f"the plan of {result.method} is not used, because the load distance would be "
        f"{result.load_distance:.4g} %, and is {necessary.distance:.4g} % without"
    )
    both = "; ".join(part for part in (result.reason, reason) if part)
    return necessary.result(result, budget, both)


@dataclass(frozen=True, eq=False)
class _UnderPlan:
    """An assignment with the figures that it leaves."""

    objective: Objective
    problem: Problem
    assignment: IntArray
    after: Problem

    @classmethod
    def of(cls, objective: Objective, problem: Problem, assignment: IntArray) -> _UnderPlan:
        after = problem_under_plan(objective, problem, assignment, problem)
        return cls(objective, problem, assignment, after)

    @property
    def distance(self) -> float:
        return metrics.load_distance(self.after, self.assignment)

    @property
    def price(self) -> float:
        return traffic_price(self.problem, self.assignment, self.objective.costs)

    @property
    def score(self) -> float:
        """The weighted sum of traffic saved and load distance."""
        weights, costs = self.objective.weights, self.objective.costs
        saved = metrics.saved_traffic(
            self.problem, self.assignment, costs.within_rack, costs.between_racks
        )
        return 0.0 if weights is None else weights.score(saved or 0.0, self.distance)

    def result(self, made: Result, budget: Budget, reason: str) -> Result:
        """The result of this assignment, with the bounds that the objective has."""
        bound, most = made.bound or 0.0, None
        if self.objective.is_joint:
            bound = load_distance_bound(self.problem, budget, self.objective.costs)
            most = collocation_bound(self.problem, budget)
        run = SolverRun(
            method=made.method,
            bound=bound,
            seconds=made.seconds,
            trace=made.trace,
            reason=reason,
            collocation_bound=most,
        )
        return make_result(self.problem, self.assignment.copy(), run, after=self.after)


def _obstacle(plan: _UnderPlan, necessary: _UnderPlan) -> str | None:
    """The promise of the objective that the plan breaks; None if it keeps all."""
    if metrics.over_cap(plan.problem, plan.assignment, plan.after.load).any():
        return "a node would be over its cap once records between nodes are counted"
    if plan.objective.is_weighted:
        if plan.score < necessary.score - ROUNDING * max(1.0, abs(necessary.score)):
            return "by the weights it is worse than the necessary moves alone"
        return None
    bound, before = plan.objective.max_load_distance, necessary.distance
    if plan.distance > max(bound, before) * (1 + ROUNDING):
        return f"the load distance would be {plan.distance:.4g} %, and {bound:g} % is allowed"
    promises_traffic = before <= bound and not plan.problem.draining.any()
    if promises_traffic and plan.price > necessary.price * (1 + ROUNDING):
        return "more records would go between nodes than without it"
    return None
