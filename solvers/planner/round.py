"""One round of balance, collocation and scaling under one budget: [ICDE17], Algorithm 1 (4.1).

    1-3  nodes that were marked for removal and are empty are ended
    4    a potential allocation, which is not deployed
    5    the scaling decision, taken from that allocation
    7    if it scales, the allocation again, for the nodes there will be
    8    the plan; a single one, so a single budget

Allocation and decision are functions passed in: any rebalance method and any scaling policy fit.
Scale-in goes on over several rounds (4.3.1). Nothing moves into a draining node; an overload may
go before a drain; and the policy's bound on the rounds of a drain is kept
(solvers/planner/drain.py).
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
from solvers.planner.drain import due_now
from solvers.planner.node_changes import NodeChange, Rules, carried_out, change_of, hot_node
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

Allocate = Callable[[Problem, Budget], Result]
Scaling = Callable[[Problem, Result, HotNode | None], ScalingDecision]
"""(problem, potential allocation, its fullest node where that is above the boundary)."""


@dataclass(frozen=True, eq=False, slots=True)
class RoundPlan:
    """A round's plan. ``problem`` is the one that was solved: what the plan is verified against.

    ``drains`` counts the rounds of each draining node, for the next round.
    """

    problem: Problem
    result: Result
    potential: Result
    decision: ScalingDecision
    ended: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    drains: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        return "; ".join((self.decision.reason, *self.notes))


def plan_round(
    problem: Problem,
    budget: Budget,
    allocate: Allocate,
    scaling: Scaling,
    *,
    drains: Mapping[str, int] | None = None,
    spares: Sequence[NodeSpec] = (),
    clusters: Mapping[str, str] | None = None,
    rules: Rules | None = None,
) -> RoundPlan:
    """Algorithm 1 for one round. ``spares`` are nodes that could be added, in this order.

    ``drains`` is what the round before returned; ``clusters`` names the cluster of a node where
    a job has several.
    """
    rules = rules or Rules()
    counted = dict(drains or {})
    ended = drained_nodes(problem)
    problem = without_nodes(problem, ended)
    solved = _with_deadlines(problem, budget, counted, rules)
    potential = allocate(solved, budget)
    if not potential.is_solved:
        decision = _unsolved(problem, potential, clusters or {})
        return RoundPlan(
            solved, potential, potential, decision, ended, drains=_next_drains(solved, counted)
        )
    hot = hot_node(problem, potential, rules.upper, clusters or {})
    decision = scaling(problem, potential, hot)
    change = change_of(problem, decision, budget, spares, clusters or {}, rules)
    plan = RoundPlan(
        solved,
        potential,
        potential,
        carried_out(decision, change),
        ended,
        drains=_next_drains(solved, counted),
        notes=change.notes,
    )
    return _allocate_again(plan, problem, budget, allocate, change, counted, rules)


def drained_nodes(problem: Problem) -> tuple[str, ...]:
    """Lines 1-3: draining nodes without a key group."""
    occupied = np.bincount(problem.current, minlength=problem.n_nodes) > 0
    empty = problem.draining & ~occupied
    return tuple(problem.node_ids[i] for i in np.flatnonzero(empty))


def scaling_by_policy(
    observation: Observation,
    policy: Policy,
    history: ScalingHistory,
    series: FloatArray | None = None,
) -> Scaling:
    """The policies of ``solvers.scale``, seeing the loads as the potential allocation has them."""

    def scaling(problem: Problem, potential: Result, hot: HotNode | None) -> ScalingDecision:
        present = set(problem.node_ids)
        seen = dataclasses.replace(
            observation,
            hot=hot,
            # A drained node has been ended; any other that the problem lacks must stay in sight.
            nodes=tuple(
                n for n in observation.nodes if n.node_id in present or n.state != DRAINING
            ),
        )
        planned = with_plan(seen, problem, potential.assignment, series)
        return decide(planned, policy, history)

    return scaling


def _allocate_again(
    plan: RoundPlan,
    problem: Problem,
    budget: Budget,
    allocate: Allocate,
    change: NodeChange,
    counted: Mapping[str, int],
    rules: Rules,
) -> RoundPlan:
    """Line 7; where the nodes there will be allow no plan, the potential allocation stands."""
    if not change.is_any:
        return plan
    fills = change.added if rules.fill_new_nodes else ()
    states = {**dict.fromkeys(change.marked, DRAINING), **dict.fromkeys(change.revived, ALIVE)}
    changed = with_nodes(with_states(problem, states), fills)
    kept = {name: rounds for name, rounds in counted.items() if name not in change.revived}
    solved = _with_deadlines(changed, budget, kept, rules)
    result = allocate(solved, budget)
    if not result.is_solved:
        held = carried_out(plan.decision, NodeChange())
        return dataclasses.replace(
            plan, decision=held, notes=(*plan.notes, f"not scaled: {result.reason}")
        )
    return dataclasses.replace(
        plan,
        problem=solved,
        result=result,
        added=tuple(n.node_id for n in change.added),
        marked=change.marked,
        revived=change.revived,
        drains=_next_drains(solved, kept),
    )


def _with_deadlines(
    problem: Problem, budget: Budget, counted: Mapping[str, int], rules: Rules
) -> Problem:
    return that_must_move(problem, due_now(problem, budget, counted, rules.max_drain_rounds))


def _next_drains(problem: Problem, counted: Mapping[str, int]) -> dict[str, int]:
    draining = [problem.node_ids[i] for i in np.flatnonzero(problem.draining)]
    return {name: counted.get(name, 0) + 1 for name in draining}


def _unsolved(problem: Problem, result: Result, clusters: Mapping[str, str]) -> ScalingDecision:
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
