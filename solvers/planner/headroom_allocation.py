"""Allocation with a rule for headroom: a plan that keeps it, at the least cost in load distance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
RESERVES = (1.0, 1.5, 2.0, 3.0)
"""Factors on the number of nodes that are kept emptier, one for each attempt."""
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
    found = [first]
    for attempt, shaped in enumerate(_attempts(problem, first.assignment)):
        left = len(RESERVES) + 1 - attempt
        each = solve(shaped, _part(stop, 1.0 / left, clock.remaining()), True)
        if each.is_solved:
            found.append(_on(objective, problem, each, first))
    kept = [each for each in found if has_headroom(problem, each.assignment)]
    if kept:
        best = min(kept, key=lambda each: each.load_distance)
        return HeadroomPlan(_with_cost(best, first), is_first=False)
    return _least_full(objective, problem, found)


def _attempts(problem: Problem, assignment: IntArray) -> Iterator[Problem]:
    """The problem itself, level to the last move, and then with more and more reserves."""
    yield problem
    for factor in RESERVES:
        shaped = with_reserves(problem, assignment, factor)
        if shaped is None:
            return
        yield shaped


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


def _on(objective: Objective, problem: Problem, found: Result, first: Result) -> Result:
    """A plan that was made for other capacities, with the figures that it has on the problem."""
    return _of_assignment(objective, problem, np.array(found.assignment), first)


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
