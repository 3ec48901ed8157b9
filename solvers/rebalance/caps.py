"""Make room under the caps for the key groups that must move.

Without caps, a key group that must leave a dead or a forbidden node can move to any node that
stays. Only with caps ([ICDE17, 4.3.1]: the bottleneck is balanced, the other resources must only
fit) is feasibility a search: other key groups may have to move, within the budget, to make room.

On a node over a cap, some key group must leave in every plan, so the search tries each of them on
each target. It is exact unless it reaches the limit of its steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.pause import move_pause_s
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem

MAX_STEPS = 2_000
"""Steps after which the search ends without an answer (a few seconds for ten thousand nodes)."""
MAX_DEPTH = 200
"""Most moves in one branch of the search; Python's stack ends at about a thousand calls."""


class CapRepair:
    """Searches for moves that bring an assignment under its caps.

    ``free``: key groups whose moves cost nothing (they must move anyway).
    ``movable``: key groups that may be moved at all.
    """

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        assignment: IntArray,
        *,
        free: BoolArray,
        movable: BoolArray,
    ) -> None:
        self.problem = problem
        self.assignment = assignment.copy()
        self.free = free
        self.open = movable.copy()
        self.sums: FloatArray = metrics.node_loads(problem, assignment) * problem.capacity
        self.limit: FloatArray = problem.cap_limit * (1 + metrics.CAP_TOLERANCE)
        self.costs = _costs(problem)
        spent = metrics.voluntary_mask(problem, assignment)
        self.left = _limits(budget) - self.costs[spent].sum(axis=0)
        self.steps = 0
        self.is_complete = True

    def run(self) -> bool:
        """Return whether ``assignment`` now keeps the caps.

        False with ``is_complete`` means that no plan keeps them.
        """
        return self._repair(0)

    def _repair(self, depth: int) -> bool:
        over = self.sums > self.limit
        if not over.any():
            return True
        for group, target in self._changes(over):
            if self.steps >= MAX_STEPS or depth >= MAX_DEPTH:
                self.is_complete = False
                return False
            self.steps += 1
            origin, left = int(self.assignment[group]), self.left
            rows = self.sums[[origin, target]]
            self._put(group, target)
            if self._repair(depth + 1):
                return True
            # Restore the old sums. Subtracting the load again would accumulate rounding errors.
            self.assignment[group], self.open[group], self.left = origin, True, left
            self.sums[[origin, target]] = rows
        return False

    def _changes(self, over: BoolArray) -> Iterator[tuple[int, int]]:
        """Yield moves off the node that is most over a cap, the emptiest targets first."""
        excess = np.where(over, self.sums / self.limit, 0.0)
        node, r = np.unravel_index(int(np.argmax(excess)), excess.shape)
        load = self.problem.load[:, r]
        here = np.flatnonzero((self.assignment == node) & self.open & (load > 0))
        # Free key groups first, then the smallest that alone brings the node under its cap.
        too_small = load[here] < self.sums[node, r] - self.limit[node, r]
        for k in here[np.lexsort((load[here], too_small, ~self.free[here]))].tolist():
            if bool(np.all(self._price(k) <= self.left)):
                for target in self._targets(k, int(node)):
                    yield k, target

    def _targets(self, group: int, without: int) -> list[int]:
        targets = self.problem.targets_of(group)
        targets = targets[targets != without]
        after = self.sums[targets] + self.problem.load[group]
        worst = (after / self.limit[targets]).max(axis=1, initial=0.0)
        ordered: list[int] = targets[np.argsort(worst, kind="stable")].tolist()
        return ordered

    def _price(self, group: int) -> FloatArray:
        return np.zeros(3) if self.free[group] else self.costs[group]

    def _put(self, group: int, node: int) -> None:
        load = self.problem.load[group]
        self.sums[self.assignment[group]] -= load
        self.sums[node] += load
        self.assignment[group] = node
        self.open[group] = False
        self.left = self.left - self._price(group)


def keep_caps(problem: Problem, plan: IntArray, stripped: IntArray) -> IntArray:
    """Return the stripped plan, or the whole plan if the stripped one breaks a cap."""
    return plan if metrics.over_cap(problem, stripped).any() else stripped


def _limits(budget: Budget) -> FloatArray:
    limits = (budget.moves, budget.bytes, budget.pause_s)
    slack = (0.0, 0.0, budget.pause_slack_s)
    return np.array(
        [np.inf if limit is None else limit + s for limit, s in zip(limits, slack, strict=True)]
    )


def _costs(problem: Problem) -> FloatArray:
    """[G, 3]: the cost of moving each key group in moves, bytes and seconds of pause."""
    return np.column_stack(
        (
            np.ones(problem.n_key_groups),
            problem.state_bytes.astype(np.float64),
            move_pause_s(problem),
        )
    )
