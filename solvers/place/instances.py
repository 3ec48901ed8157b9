"""A problem as [AUTODASP17] states it: substreams with one load on instances of the same size.

Instances are the nodes that stay. A key group that must move starts where the necessary moves
bring it, one on a draining node where the load stays lowest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.result import Result, SolverRun, make_result
from solvers.rebalance.bound import counting_bound
from solvers.rebalance.plan_repair import repair_plan
from solvers.rebalance.start import place_must_moves

UNEQUAL = 1e-6
"""Relative: capacities that differ by less count as the same."""


@dataclass(frozen=True, eq=False, slots=True)
class Instances:
    """The nodes that stay as instances 0 to n - 1, and where each key group starts."""

    problem: Problem
    resource: int
    """Index of the resource that is levelled."""
    nodes: IntArray
    """[instances] Index of the node."""
    current: IntArray
    """[key groups] Instance before the plan."""

    @classmethod
    def of(cls, problem: Problem, budget: Budget, method: str) -> Instances:
        """The instances of a problem for which ``why_infeasible`` is None.

        Raises:
            InvalidInput: several resources are balanced, or capacities of nodes differ.
        """
        resource = balanced_resource(problem, method)
        nodes = np.flatnonzero(problem.staying)
        room = problem.capacity[nodes, resource]
        if np.ptp(room) > UNEQUAL * float(room.max()):
            raise InvalidInput(
                f"method {method!r} assumes nodes of the same capacity, and they have "
                f"{room.min():g} to {room.max():g} of {problem.resources[resource]!r}",
                remedy="choose another method",
            )
        placed = on_staying_nodes(problem, budget, resource)
        index = np.full(problem.n_nodes, -1, dtype=np.int64)
        index[nodes] = np.arange(len(nodes))
        return cls(problem, resource, nodes, index[placed])

    @property
    def load(self) -> FloatArray:
        """[key groups]: the load of the period, as a share of a node."""
        return np.asarray(self.problem.load[:, self.resource] / self._room)

    def newest(self, series: FloatArray, steps: int) -> FloatArray:
        """[key groups, steps]: the newest steps of a load series, as shares of a node."""
        return np.asarray(series[:, self.resource, -steps:] / self._room)

    def result(
        self, assignment: IntArray, budget: Budget, method: str, seconds: float, note: str = ""
    ) -> Result:
        """The result of a plan by instances, after what breaks a rule was undone."""
        return repaired_result(self.problem, budget, self.nodes[assignment], method, seconds, note)

    @property
    def _room(self) -> float:
        return float(self.problem.capacity[self.nodes[0], self.resource])


def balanced_resource(problem: Problem, method: str) -> int:
    """The index of the one resource that is balanced.

    Raises:
        InvalidInput: there are several.
    """
    balanced = np.flatnonzero(problem.balanced_mask)
    if len(balanced) > 1:
        names = ", ".join(problem.resources[r] for r in balanced.tolist())
        raise InvalidInput(
            f"method {method!r} levels one resource, and {names} are to be balanced",
            remedy="make the others caps, or choose another method",
        )
    return int(balanced[0])


def on_staying_nodes(problem: Problem, budget: Budget, resource: int) -> IntArray:
    """[key groups]: a node that stays for each, the largest key group of draining nodes first."""
    placed = place_must_moves(problem, budget).copy()
    load, room = problem.load[:, resource], problem.capacity[:, resource]
    sums = np.bincount(placed, weights=load, minlength=problem.n_nodes)
    leaving = np.flatnonzero(~problem.staying[placed])
    for k in leaving[np.argsort(-load[leaving], kind="stable")].tolist():
        targets = problem.targets_of(k)
        # Without an allowed node that stays the repair leaves the key group where it is.
        targets = targets if len(targets) else np.flatnonzero(problem.staying)
        node = int(targets[int(np.argmin((sums[targets] + load[k]) / room[targets]))])
        placed[k] = node
        sums[node] += load[k]
    return placed


def repaired_result(
    problem: Problem, budget: Budget, wanted: IntArray, method: str, seconds: float, note: str = ""
) -> Result:
    """The result of the plan, after what breaks a rule was undone; the reason says so."""
    repaired = repair_plan(problem, budget, wanted)
    return make_result(
        problem,
        repaired.assignment.copy(),
        SolverRun(
            method=method,
            bound=counting_bound(problem, budget),
            seconds=seconds,
            reason=repaired.reason(note),
        ),
    )
