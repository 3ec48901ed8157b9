"""Repairs the plan of a method that knows no rules, so that it keeps them, and reports the changes.

Methods of other papers place load and know neither budget nor pins nor caps. Their moves that a
rule forbids are undone. While the budget is exceeded, the move whose undoing raises the deviation
of the loads (and, where asked, the traffic between nodes) least for its cost is undone next. What
is left is never worse than the necessary moves alone: otherwise only those are made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.pause import move_pause_s
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem
from solvers.rebalance.compare import TIE
from solvers.rebalance.start import Cost, place_must_moves

CHUNK = 20
"""One in so many of the moves left is undone before the worths of moves are computed again."""
TINY = 1e-300


@dataclass(frozen=True, eq=False, slots=True)
class RepairedPlan:
    """A plan that keeps all rules, and sentences on what was changed for it."""

    assignment: IntArray
    notes: tuple[str, ...] = ()

    def reason(self, first: str = "") -> str:
        """The sentences as one reason."""
        return "; ".join(part for part in (first, *self.notes) if part)


def repair_plan(
    problem: Problem,
    budget: Budget,
    wanted: IntArray,
    *,
    is_joint: bool = False,
    may_be_worse: bool = False,
) -> RepairedPlan:
    """Return the plan without the moves that break a rule.

    Args:
        problem: a problem for which ``why_infeasible`` is None.
        budget: limits of the moves that are not forced.
        wanted: the node of each key group as the method has it.
        is_joint: whether moves are also worth the traffic that they keep within nodes. A joint plan
            may raise the load distance; the caller checks the bound of its objective.
        may_be_worse: whether the plan may raise the load distance, because it is a step of another.
    """
    base = place_must_moves(problem, budget)
    plan, notes = _permitted(problem, base, wanted)
    plan, undone = _under_caps(problem, base, plan)
    if undone:
        notes.append(f"{undone} moves were undone that would exceed a cap")
    plan, undone = _affordable(problem, budget, base, plan, is_joint=is_joint)
    if undone:
        notes.append(f"{undone} moves that are worth least were undone to keep the budget")
    if not (is_joint or may_be_worse) and _is_worse(problem, base, plan):
        distance = metrics.load_distance(problem, plan)
        notes.append(
            f"its plan is not used, because the load distance would be {distance:.4g} %, and is "
            f"{metrics.load_distance(problem, base):.4g} % without"
        )
        plan = base
    return RepairedPlan(plan, tuple(notes))


def _permitted(problem: Problem, base: IntArray, wanted: IntArray) -> tuple[IntArray, list[str]]:
    """The plan without moves of pinned key groups, and onto nodes that may not take them."""
    groups = np.arange(problem.n_key_groups)
    may_come = problem.staying[wanted] & problem.permits(groups, wanted)
    bad = (wanted != base) & (problem.pinned_mask | ~may_come)
    if not bad.any():
        return wanted.copy(), []
    note = f"{int(bad.sum())} moves were undone that pins, allowed nodes or draining nodes forbid"
    return np.where(bad, base, wanted), [note]


def _under_caps(problem: Problem, base: IntArray, plan: IntArray) -> tuple[IntArray, int]:
    """The plan without the moves that bring a node over a cap; the largest are undone first."""
    undone = 0
    while (over := metrics.over_cap(problem, plan)).any():
        nodes = np.flatnonzero(over.any(axis=1))
        coming = np.flatnonzero((plan != base) & np.isin(plan, nodes))
        if not len(coming):
            # Moves that were undone filled a node that others had left for it.
            return base.copy(), undone + int((plan != base).sum())
        capped = ~problem.balanced_mask
        size = (problem.load[coming] / problem.capacity[plan[coming]])[:, capped].max(axis=1)
        k = int(coming[int(np.argmax(size))])
        plan[k] = base[k]
        undone += 1
    return plan, undone


def _affordable(
    problem: Problem, budget: Budget, base: IntArray, plan: IntArray, *, is_joint: bool
) -> tuple[IntArray, int]:
    """The plan with moves undone until the budget holds, and their number."""
    undoing, undone = _Undoing(problem, budget, base, plan, is_joint), 0
    while not undoing.fits():
        order = undoing.cheapest_first()
        if not len(order):
            break
        for k in order[: max(1, len(order) // CHUNK)].tolist():
            undoing.undo(k)
            undone += 1
            if undoing.fits():
                break
    # An undone move can bring a node over its cap again.
    if metrics.over_cap(problem, undoing.plan).any():
        return base.copy(), undone + int((undoing.plan != base).sum())
    return undoing.plan, undone


class _Undoing:
    """A plan whose moves are undone one after another."""

    def __init__(
        self, problem: Problem, budget: Budget, base: IntArray, plan: IntArray, is_joint: bool
    ) -> None:
        self.problem, self.budget, self.base, self.is_joint = problem, budget, base, is_joint
        self.plan = plan.copy()
        self.target = metrics.mean_load(problem)
        self.weight = problem.weights * problem.balanced_mask
        self.cost = self._cost_shares()
        self.paid: BoolArray = metrics.voluntary_mask(problem, plan)

    def fits(self) -> bool:
        """Whether the moves left are within the budget."""
        return Cost.of(self.problem, self.paid).fits(self.budget)

    def undo(self, k: int) -> None:
        """Take a move back."""
        self.plan[k] = self.base[k]
        self.paid[k] = False

    def cheapest_first(self) -> IntArray:
        """Moves that may be undone, those first that are worth least for their cost."""
        moves = np.flatnonzero(self.paid & (self.plan != self.base))
        worth = self._deviation_worth(moves)
        if self.is_joint:
            worth = worth + self._traffic_worth(moves)
        # Of moves that are worth less than nothing the costly ones go first.
        cost = self.cost[moves]
        return moves[np.argsort(np.where(worth > 0, worth / cost, worth * cost), kind="stable")]

    def _deviation_worth(self, moves: IntArray) -> FloatArray:
        """By how much the mean square of the deviations, in units of the mean load, rises if a
        move alone is undone."""
        problem = self.problem
        loads = metrics.node_loads(problem, self.plan)
        wanted = np.where(problem.staying[:, None], self.target, 0.0)
        away = loads - wanted
        here, back = self.plan[moves], self.base[moves]
        load = problem.load[moves]
        leaves, comes = load / problem.capacity[here], load / problem.capacity[back]
        change = (away[here] - leaves) ** 2 - away[here] ** 2
        change += (away[back] + comes) ** 2 - away[back] ** 2
        scale = float(((self.target * self.weight) ** 2).sum() * problem.staying.sum())
        return np.asarray((change * self.weight**2).sum(axis=1) / max(scale, TINY))

    def _traffic_worth(self, moves: IntArray) -> FloatArray:
        """The share of all records that would leave their node if a move alone is undone."""
        problem = self.problem
        lost = np.zeros(problem.n_key_groups)
        source, target, rate = problem.traffic_from, problem.traffic_to, problem.traffic_rate
        if source is None or target is None or rate is None:
            return lost[moves]
        for one, other in ((source, target), (target, source)):
            local_now = self.plan[one] == self.plan[other]
            local_then = self.base[one] == self.plan[other]
            np.add.at(lost, one, rate * (local_now.astype(np.float64) - local_then))
        return np.asarray(lost[moves] / max(float(rate.sum()), TINY))

    def _cost_shares(self) -> FloatArray:
        """[key groups]: what a move takes of the scarcest unit of the budget."""
        problem, budget = self.problem, self.budget
        shares = np.full(problem.n_key_groups, 1e-9)
        if budget.moves is not None:
            shares = np.maximum(shares, 1.0 / max(budget.moves, 1))
        if budget.bytes is not None:
            shares = np.maximum(shares, problem.state_bytes / max(budget.bytes, 1))
        if budget.pause_s is not None:
            shares = np.maximum(shares, move_pause_s(problem) / max(budget.pause_s, 1e-9))
        return shares


def _is_worse(problem: Problem, base: IntArray, plan: IntArray) -> bool:
    return metrics.load_distance(problem, plan) > metrics.load_distance(problem, base) + TIE
