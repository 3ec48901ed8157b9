"""One round of balance, collocation and scaling under one budget: [ICDE17, Algorithm 1 (4.1)].

    1-3  end the nodes that were marked for removal and hold no key group
    4    compute a potential allocation, which is not deployed
    5    decide on scaling from that allocation
    7    if the job scales, allocate again for the new set of nodes
    8    return one plan; there is one plan, so there is one budget

The allocation and the scaling decision are functions that the caller passes in. Any rebalance
method and any scaling policy fit. A scale-in takes several rounds [ICDE17, 4.3.1]: no key group
moves to a draining node, relieving an overloaded node may come before draining another one, and
the policy bounds the rounds that a drain may take (solvers/planner/drain.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from solvers.model.budget import Budget
from solvers.model.node_set import NodeSpec, that_must_move, with_nodes, with_states, without_nodes
from solvers.model.problem import ALIVE, DRAINING, FloatArray, Problem
from solvers.model.result import Result
from solvers.planner.allocation import Allocation
from solvers.planner.drain import due_now
from solvers.planner.node_changes import (
    NodeChange,
    NodeChangeRules,
    NodePool,
    as_carried_out,
    change_of,
    hot_node,
)
from solvers.rules.narrowing import within_move_limits
from solvers.scale import (
    HotNode,
    Observation,
    Policy,
    ScalingAction,
    ScalingDecision,
    ScalingHistory,
    decide,
)
from solvers.scale.planned_observation import with_plan

Allocate = Callable[[Problem, Budget], Allocation]
DecideScaling = Callable[[Problem, Result, HotNode | None], ScalingDecision]
"""(problem, potential allocation, its fullest node if that is above the boundary) -> decision."""


@dataclass(frozen=True, slots=True)
class ScalingRequest:
    """How a round decides on its nodes, and which nodes it may add or remove."""

    decide: DecideScaling
    drains: Mapping[str, int] = field(default_factory=dict)
    """Rounds that each draining node has been draining: ``RoundPlan.drains`` of the last round."""
    spares: Sequence[NodeSpec] = ()
    """Nodes that the round may add, in this order."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """Cluster of each node, if the job has several clusters."""
    rules: NodeChangeRules = field(default_factory=NodeChangeRules)


@dataclass(frozen=True, eq=False, slots=True)
class RoundPlan:
    """The plan of a round.

    ``problem`` is the problem that was solved, and the plan is verified against it. ``drains``
    counts the rounds of each draining node; the next round takes it as its input.
    """

    problem: Problem
    allocation: Allocation
    potential: Result
    decision: ScalingDecision
    ended: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    drains: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def result(self) -> Result:
        """The assignment of the plan and its figures."""
        return self.allocation.result

    @property
    def reason(self) -> str:
        """Why the round scales or does not scale."""
        return "; ".join((self.decision.reason, *self.notes))


def plan_round(
    problem: Problem, budget: Budget, allocate: Allocate, request: ScalingRequest
) -> RoundPlan:
    """Run [ICDE17, Algorithm 1] for one round.

    Args:
        problem: the job as it was measured.
        budget: what the moves of the round may cost.
        allocate: assigns key groups to nodes. It is called a second time if the job scales.
        request: how to decide on scaling, and the nodes that may be added.

    Returns:
        The plan for the nodes that there will be. If the new set of nodes allows no plan, the
        potential allocation is the plan. If that is not solved either, the result says why.
    """
    ended = drained_nodes(problem)
    problem = without_nodes(problem, ended)
    solved = _with_deadlines(problem, budget, request.drains, request.rules)
    potential = allocate(solved, budget)
    drains = _next_drains(solved, request.drains)
    if not potential.result.is_solved:
        decision = _unsolved(problem, potential.result, request.clusters)
        return RoundPlan(solved, potential, potential.result, decision, ended, drains=drains)
    hot = hot_node(problem, potential.result, request.rules.upper, request.clusters)
    decision = request.decide(problem, potential.result, hot)
    pool = NodePool(request.spares, request.clusters, request.rules)
    change = change_of(problem, decision, budget, pool)
    plan = RoundPlan(
        potential.narrowed or solved,
        potential,
        potential.result,
        as_carried_out(decision, change),
        ended,
        drains=drains,
        notes=change.notes,
    )
    if not change.is_any:
        return plan
    changed, counted = _changed_nodes(problem, request, change)
    changed = _with_deadlines(changed, budget, counted, request.rules)
    return _scaled(plan, changed, allocate(changed, budget), change, counted)


def drained_nodes(problem: Problem) -> tuple[str, ...]:
    """Lines 1-3: draining nodes that hold no key group."""
    occupied = np.bincount(problem.current, minlength=problem.n_nodes) > 0
    empty = problem.draining & ~occupied
    return tuple(problem.node_ids[i] for i in np.flatnonzero(empty))


def scaling_by_policy(
    observation: Observation,
    policy: Policy,
    history: ScalingHistory,
    series: FloatArray | None = None,
) -> DecideScaling:
    """Return a function that decides on scaling from the loads of the potential allocation.

    Args:
        observation: what was measured in the statistics period.
        policy: the method and its limits.
        history: past rounds, oldest first.
        series: [key groups, resources, windows], loads; without it the problem's loads in every
            window.
    """

    def scaling(problem: Problem, potential: Result, hot: HotNode | None) -> ScalingDecision:
        present = set(problem.node_ids)
        seen = dataclasses.replace(
            observation,
            hot=hot,
            # A drained node has been ended. Other nodes that the problem lacks stay observed.
            nodes=tuple(
                n for n in observation.nodes if n.node_id in present or n.state != DRAINING
            ),
        )
        planned = with_plan(seen, problem, potential.assignment, series)
        return decide(planned, policy, history)

    return scaling


def _changed_nodes(
    problem: Problem, request: ScalingRequest, change: NodeChange
) -> tuple[Problem, dict[str, int]]:
    """Line 7: the problem with the nodes there will be, and the rounds of its draining nodes."""
    fills = change.added if request.rules.fill_new_nodes else ()
    states = {**dict.fromkeys(change.marked, DRAINING), **dict.fromkeys(change.revived, ALIVE)}
    changed = with_nodes(with_states(problem, states), fills)
    drains = {name: n for name, n in request.drains.items() if name not in change.revived}
    return changed, drains


def _scaled(
    plan: RoundPlan,
    problem: Problem,
    allocation: Allocation,
    change: NodeChange,
    drains: Mapping[str, int],
) -> RoundPlan:
    """The plan with the second allocation; unchanged nodes if that has no solution."""
    if not allocation.result.is_solved:
        return dataclasses.replace(
            plan,
            decision=as_carried_out(plan.decision, NodeChange()),
            notes=(*plan.notes, f"not scaled: {allocation.result.reason}"),
        )
    return dataclasses.replace(
        plan,
        problem=allocation.narrowed or problem,
        allocation=allocation,
        added=tuple(n.node_id for n in change.added),
        marked=change.marked,
        revived=change.revived,
        drains=_next_drains(problem, drains),
    )


def _with_deadlines(
    problem: Problem, budget: Budget, drains: Mapping[str, int], rules: NodeChangeRules
) -> Problem:
    """The problem in which key groups that are due must leave their draining nodes."""
    due = due_now(problem, budget, drains, rules.max_drain_rounds)
    return that_must_move(problem, within_move_limits(problem, due))


def _next_drains(problem: Problem, drains: Mapping[str, int]) -> dict[str, int]:
    draining = [problem.node_ids[i] for i in np.flatnonzero(problem.draining)]
    return {name: drains.get(name, 0) + 1 for name in draining}


def _unsolved(problem: Problem, result: Result, clusters: Mapping[str, str]) -> ScalingDecision:
    """No scaling, because the potential allocation has no solution."""
    staying = [problem.node_ids[i] for i in np.flatnonzero(problem.staying)]
    counts = dict.fromkeys(dict.fromkeys(clusters.get(n, "") for n in problem.node_ids), 0)
    for name in staying:
        counts[clusters.get(name, "")] += 1
    return ScalingDecision(
        ScalingAction.HOLD,
        counts,
        counts,
        reason=f"no scaling, because there is no allocation to decide from: {result.reason}",
        binding="allocation",
        would_change="a problem that has an allocation",
    )
