"""Checks the claim that a problem has no plan, by a search for the simplest plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from solvers.verify.plan_figures import (
    cap_limits,
    is_on_allowed_node,
    pause_of,
    state_bytes_of,
    sum_by_node,
)
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.budget import Budget
    from solvers.model.problem import Problem

Ints = npt.NDArray[np.int64]


def verify_infeasible(problem: Problem, budget: Budget) -> list[Violation]:
    """Check the claim that the problem has no plan.

    The check searches for the plan with only the necessary moves. With caps that plan may exist
    and be hard to find. If the check does not find it, it accepts the claim.

    Returns:
        One violation if a plan exists, else an empty list.
    """
    before = np.asarray(problem.current)
    state = np.array(problem.node_state)
    if not np.any(state == "alive"):
        return []
    on_dead = state[before] == "dead"
    misplaced = ~on_dead & ~is_on_allowed_node(problem, before)
    must = on_dead | misplaced
    if problem.pinned is not None and np.any(must & problem.pinned):
        return []
    plan = _place_first_fit(problem, np.flatnonzero(must))
    costs = (
        (budget.moves, int(np.count_nonzero(misplaced))),
        (budget.bytes, state_bytes_of(problem, misplaced)),
        (budget.pause_s, pause_of(problem, misplaced)),
    )
    if plan is None or any(limit is not None and used > limit for limit, used in costs):
        return []
    return [Violation("status", "says infeasible, but a plan with only the necessary moves exists")]


def _place_first_fit(problem: Problem, groups: Ints) -> Ints | None:
    """Put each of these key groups on the first node with room; None if there is none for one.

    It is a loop because with caps each placement reduces the room for the next ones.
    """
    plan = np.array(problem.current)
    alive = np.flatnonzero(np.array(problem.node_state) == "alive")
    sums = sum_by_node(problem, plan, problem.load)
    room = cap_limits(problem, sums) - sums
    for k in groups.tolist():
        room[plan[k]] += problem.load[k]
    for k in groups.tolist():
        nodes = alive
        if problem.allowed is not None and problem.allowed.restricted[k]:
            row = slice(problem.allowed.indptr[k], problem.allowed.indptr[k + 1])
            nodes = np.intersect1d(alive, problem.allowed.nodes[row])
        fits = nodes[np.all(room[nodes] >= problem.load[k], axis=1)]
        if not len(fits):
            return None
        plan[k] = fits[0]
        room[fits[0]] -= problem.load[k]
    return plan
