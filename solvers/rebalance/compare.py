"""Compares plans; every method uses this order.

Order: load distance; then the load on draining nodes ([ICDE17, 4.3.1] minimises both); then
fewer moves, then fewer bytes. Differences within the tolerance are ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.model import metrics
from solvers.model.problem import IntArray, Problem
from solvers.rebalance.start import misplaced_mask

TIE = 1e-6
"""Tolerance: percentage points of load distance, and percent of the load on draining nodes."""


@dataclass(frozen=True, slots=True)
class Score:
    """The figures by which plans are compared; smaller is better."""

    load_distance: float
    draining_load: float
    draining_groups: int
    moves: int
    bytes: int

    @classmethod
    def of(cls, problem: Problem, assignment: IntArray) -> Score:
        voluntary = metrics.voluntary_mask(problem, assignment)
        return cls(
            metrics.load_distance(problem, assignment),
            metrics.draining_load(problem, assignment),
            int(problem.draining[assignment].sum()),
            int(voluntary.sum()),
            int(problem.state_bytes[voluntary].sum()),
        )


def best_index(scores: Sequence[Score]) -> int:
    """Return the index of the best score; the first of equal ones."""
    left = list(range(len(scores)))
    lowest = min(s.load_distance for s in scores)
    left = [i for i in left if scores[i].load_distance <= lowest + TIE]
    lowest = min(scores[i].draining_load for i in left)
    left = [i for i in left if scores[i].draining_load <= lowest + TIE]
    return min(left, key=lambda i: (scores[i].draining_groups, scores[i].moves, scores[i].bytes))


def best_plan(problem: Problem, plans: Sequence[IntArray]) -> IntArray:
    return plans[best_index([Score.of(problem, plan) for plan in plans])]


def without_useless_moves(problem: Problem, assignment: IntArray) -> IntArray:
    """Return the plan, or only its necessary moves if the other moves improve nothing."""
    optional = metrics.voluntary_mask(problem, assignment) & ~misplaced_mask(problem)
    necessary_only = np.where(optional, problem.current, assignment)
    # A necessary move may only fit where an optional one made room under a cap.
    if metrics.over_cap(problem, necessary_only).any():
        return assignment
    return best_plan(problem, [necessary_only, assignment])
