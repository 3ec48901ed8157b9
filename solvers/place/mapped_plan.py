"""From operators mapped to clusters of nodes ([DODO, 6.2]) to a plan for key groups.

The thesis maps whole operators and leaves the nodes of a cluster to the engine. Here the key groups
that are on another cluster come to theirs, largest first, each to the node where the load stays
lowest. What the budget does not pay for stays where it is. What is left of the budget levels the
nodes of each cluster by the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model.budget import Budget
from solvers.model.problem import AllowedNodes, BoolArray, FloatArray, IntArray, Problem
from solvers.model.result import Result
from solvers.model.stop import SolverClock, Stop
from solvers.place.instances import balanced_resource, on_staying_nodes, repaired_result
from solvers.rebalance import search
from solvers.rebalance.plan_repair import repair_plan


@dataclass(frozen=True, eq=False, slots=True)
class ClusteredProblem:
    """A problem with its operators, and with its clusters of nodes that stay."""

    problem: Problem
    resource: int
    cluster: IntArray
    """[nodes] Index of the cluster."""
    operator: IntArray
    """[key groups] Index of the operator."""
    current: IntArray
    """[key groups] Node that stays, where the key group starts."""

    @classmethod
    def of(
        cls, problem: Problem, budget: Budget, clusters: Mapping[str, str] | None, method: str
    ) -> ClusteredProblem:
        """The clusters of a problem for which ``why_infeasible`` is None.

        Raises:
            InvalidInput: several resources are balanced, or fewer than two clusters have a node
                that stays.
        """
        resource = balanced_resource(problem, method)
        names = [(clusters or {}).get(node, "") for node in problem.node_ids]
        staying = [name for name, stays in zip(names, problem.staying, strict=True) if stays]
        known = {name: i for i, name in enumerate(dict.fromkeys(staying))}
        if len(known) < 2:
            raise InvalidInput(
                f"method {method!r} maps operators to clusters of nodes, and {len(known)} cluster "
                "has nodes that stay",
                remedy="give nodes of the policy a cluster, or choose another method",
            )
        _, operator = np.unique(np.array(problem.operator_ids), return_inverse=True)
        return cls(
            problem,
            resource,
            np.array([known.get(name, -1) for name in names], dtype=np.int64),
            np.asarray(operator, dtype=np.int64),
            on_staying_nodes(problem, budget, resource),
        )

    @property
    def sizes(self) -> FloatArray:
        """[clusters]: capacity, in units of an average node."""
        room = self.problem.capacity[:, self.resource] * self.problem.staying
        staying = self.cluster >= 0
        sums = np.bincount(self.cluster[staying], weights=room[staying])
        return np.asarray(sums / room[self.problem.staying].mean())

    @property
    def load(self) -> FloatArray:
        """[key groups]: load in units of an average node."""
        room = self.problem.capacity[self.problem.staying, self.resource].mean()
        return np.asarray(self.problem.load[:, self.resource] / room)

    def by_operator(self, of_key_groups: FloatArray) -> FloatArray:
        """[operators, ...]: sums over the key groups of each operator."""
        shape = (int(self.operator.max(initial=-1)) + 1, *of_key_groups.shape[1:])
        sums = np.zeros(shape)
        np.add.at(sums, self.operator, of_key_groups)
        return sums

    def mapping_now(self) -> IntArray:
        """[operators]: the cluster that has most of the operator's load, or of its key groups."""
        here = self.cluster[self.current]
        count = len(self.sizes)
        # A little for each key group: an operator without load is where most of them are.
        weight = self.load + 1e-9
        shares = self.by_operator(weight[:, None] * (here[:, None] == np.arange(count)))
        return np.asarray(shares.argmax(axis=1), dtype=np.int64)

    def plan(self, mapping: IntArray) -> IntArray:
        """[key groups]: the node of each, with every operator on the cluster of the mapping."""
        problem, load = self.problem, self.load
        wanted = mapping[self.operator]
        placed = self.current.copy()
        room = problem.capacity[:, self.resource]
        sums = np.bincount(placed, weights=load, minlength=problem.n_nodes)
        coming = np.flatnonzero(self.cluster[placed] != wanted)
        np.subtract.at(sums, placed[coming], load[coming])
        for k in coming[np.argsort(-load[coming], kind="stable")].tolist():
            targets = np.flatnonzero((self.cluster == wanted[k]) & problem.staying)
            node = int(targets[int(np.argmin((sums[targets] + load[k]) / room[targets]))])
            placed[k] = node
            sums[node] += load[k]
        return placed


@dataclass(frozen=True, slots=True)
class MappingRun:
    """The method that runs, its limits and its seed. The search gets the time that is left."""

    method: str
    budget: Budget
    stop: Stop
    clock: SolverClock
    seed: int


def mapped_result(clustered: ClusteredProblem, mapping: IntArray, run: MappingRun) -> Result:
    """The result of a mapping: affordable moves between clusters, then level nodes in each.

    Args:
        clustered: the problem and its clusters.
        mapping: [operators] the cluster of each operator.
        run: method, limits and seed.
    """
    problem, budget = clustered.problem, run.budget
    wanted = clustered.plan(mapping)
    came = repair_plan(problem, budget, wanted, may_be_worse=True).assignment
    late = int((clustered.cluster[came] != clustered.cluster[wanted]).sum())
    within = replace(problem, allowed=_own_cluster(clustered, came))
    remaining = run.clock.remaining()
    left = Stop(None if remaining is None else max(1e-3, remaining), run.stop.steps)
    levelled = search.METHOD.solve_with_defaults(within, budget, left, run.seed)
    plan = levelled.assignment if levelled.is_solved else came
    note = (
        f"{late} key groups of operators that were mapped to another cluster stay for a later plan"
        if late
        else ""
    )
    return repaired_result(problem, budget, plan, run.method, run.clock.elapsed(), note)


def _own_cluster(clustered: ClusteredProblem, plan: IntArray) -> AllowedNodes:
    """The permitted nodes of the cluster that each key group is on under a plan."""
    problem = clustered.problem
    groups = np.arange(problem.n_key_groups)
    mask: BoolArray = clustered.cluster[plan][:, None] == clustered.cluster[None, :]
    for node in range(problem.n_nodes):
        permitted = problem.permits(groups, np.full(problem.n_key_groups, node))
        mask[:, node] &= permitted
    mask[groups, plan] = True
    return AllowedNodes.from_mask(mask)
