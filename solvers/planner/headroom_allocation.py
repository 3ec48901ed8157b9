"""Allocation with a rule for headroom: a plan that keeps it, at the least cost in load distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.key_routing.routing_effect import problem_under_plan
from solvers.model.objective import Objective
from solvers.model.problem import IntArray, Problem
from solvers.model.result import Result, SolverRun, make_result
from solvers.model.stop import Stop
from solvers.rules.headroom import has_headroom, is_required, with_reserves, worst_failover
from solvers.rules.rule_text import broken_rules

FIRST_SHARE = 0.4
"""Share of the time for a plan without the rule."""
RESERVES = (1.0, 2.0, 3.0)
"""Factors on the number of nodes that are kept emptier, one for each attempt."""
ATTEMPTS = 7
"""Plans that are made after the first one, at most."""
SHORTEST_S = 1e-3

Solve = Callable[[Problem, Stop, bool], Result]
"""(problem, stop, whether moves within the noise are made as well) -> plan."""


@dataclass(frozen=True, eq=False, slots=True)
class HeadroomPlan:
    """The plan that was chosen, and what the rule costs."""

    result: Result
    is_first: bool
    """Whether it is the plan that was found without the rule."""


def plan_with_headroom(
    objective: Objective, problem: Problem, stop: Stop, solve: Solve
) -> HeadroomPlan:
    """Plan without the rule first, and then with nodes that are kept emptier if it is broken.

    Args:
        objective: what plans are for.
        problem: a problem with a rule for headroom; every plan within its masks keeps other rules.
        stop: when the search stops.
        solve: a method.

    Returns:
        Of the plans that keep headroom the one with the least load distance. If none was found,
        the plan after which the fullest node is least full, the placement of today among them.
    """
    clock = stop.start()
    first = solve(problem, _part(stop, FIRST_SHARE, clock.remaining()), False)
    if not first.is_solved or has_headroom(problem, first.assignment):
        return HeadroomPlan(first, is_first=True)
    attempts = _Attempts(objective, problem, first)
    for attempt in range(ATTEMPTS):
        shaped = attempts.next()
        if shaped is None:
            break
        left = _part(stop, 1.0 / (ATTEMPTS - attempt), clock.remaining())
        attempts.add(shaped, solve(shaped, left, True))
    found = attempts.found
    kept = [each for each in found if has_headroom(problem, each.assignment)]
    if kept:
        best = min(kept, key=lambda each: each.load_distance)
        return HeadroomPlan(_with_cost(best, first), is_first=False)
    return _least_full(objective, problem, found)


class _Attempts:
    """Plans for the problem itself, for exact precision, and for problems with less capacity on
    some nodes.

    The number of these nodes rises until a plan keeps headroom. Then they get more of their
    capacity back, by bisection, because headroom costs load distance.
    """

    def __init__(self, objective: Objective, problem: Problem, first: Result) -> None:
        self.objective, self.problem, self.first = objective, problem, first
        self.found = [first]
        self.factors = list(RESERVES)
        self.shaped: Problem | None = None
        self.strength = 1.0
        self.low, self.high = 0.0, 1.0

    def next(self) -> Problem | None:
        """The problem to solve next; None if there is nothing left to try."""
        if len(self.found) == 1:
            return self.problem
        if self.shaped is None and not self._is_kept(self.found[-1]):
            while self.factors:
                shaped = with_reserves(self.problem, self.first.assignment, self.factors.pop(0))
                if shaped is not None:
                    self.strength = 1.0
                    return shaped
        if self.shaped is None:
            return None
        self.strength = (self.low + self.high) / 2.0
        capacity = self.problem.capacity
        capacity = capacity + self.strength * (self.shaped.capacity - capacity)
        return replace(self.problem, capacity=capacity)

    def add(self, shaped: Problem, result: Result) -> None:
        """Note the plan of the problem that :meth:`next` returned."""
        kept = False
        if result.is_solved:
            plan = np.array(result.assignment)
            self.found.append(_of_assignment(self.objective, self.problem, plan, self.first))
            kept = self._is_kept(self.found[-1])
        else:
            self.found.append(self.first)
        if self.shaped is None and kept and shaped is not self.problem:
            self.shaped = shaped
        elif self.shaped is not None and kept:
            self.high = self.strength
        elif self.shaped is not None:
            self.low = self.strength

    def _is_kept(self, result: Result) -> bool:
        return has_headroom(self.problem, result.assignment)


def _least_full(objective: Objective, problem: Problem, found: Sequence[Result]) -> HeadroomPlan:
    """The plan that comes nearest to the limit; one that is worse than today only if it must be."""
    first = found[0]
    candidates = list(found)
    if is_required(problem) and not broken_rules(problem, problem.current):
        candidates.append(_of_assignment(objective, problem, problem.current.copy(), first))
    full = [_fullest(problem, each.assignment) for each in candidates]
    if full[0] <= full[-1]:
        return HeadroomPlan(first, is_first=True)
    best = candidates[full.index(min(full))]
    return HeadroomPlan(best, is_first=best is first)


def _fullest(problem: Problem, assignment: IntArray) -> float:
    found = worst_failover(problem, assignment)
    return 0.0 if found is None else found.utilisation


def _part(stop: Stop, share: float, remaining: float | None) -> Stop:
    return stop if remaining is None else Stop(max(share * remaining, SHORTEST_S), stop.steps)


def _of_assignment(
    objective: Objective, problem: Problem, assignment: IntArray, first: Result
) -> Result:
    after = None
    if objective.is_joint and problem.traffic_rate is not None:
        after = problem_under_plan(objective, problem, assignment, problem)
    run = SolverRun(first.method, first.bound or 0.0, first.seconds, first.trace, first.reason)
    return make_result(problem, assignment, run, after=after)


def _with_cost(best: Result, first: Result) -> Result:
    cost = (
        f"headroom costs {best.load_distance - first.load_distance:.2f} points of load distance: "
        f"{best.load_distance:.2f} % instead of {first.load_distance:.2f} %"
    )
    reason = f"{cost}; {best.reason}" if best.reason else cost
    return replace(best, reason=reason)
