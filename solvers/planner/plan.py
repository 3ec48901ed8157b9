"""The entry point for planning: from a job's problem to the plan of one round. Pure.

``plan`` allocates key groups to nodes by the job's objective, changes the nodes if the job scales
([ICDE17, Algorithm 1 (4.1)], solvers/planner/round.py), routes keys one by one
(solvers/key_routing), and decides whether the change is worth it (solvers/planner/decision.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ballast.contracts.policy import JobPolicy
from ballast.contracts.tables import EXACT, MEASURED
from solvers.collocate import joint
from solvers.collocate.target_memory import TargetMemory
from solvers.key_routing.key_splits import (
    SplitDecision,
    SplitOptions,
    decide_splits,
    split_bound,
)
from solvers.key_routing.routed_plan import RoutingOptions, RoutingRequest
from solvers.key_routing.routing_effect import problem_after, problem_under_plan
from solvers.key_routing.split_effect import SplitKeys, changed_keys, problem_after_splits
from solvers.model.amortisation import HeldBack
from solvers.model.budget import Budget
from solvers.model.key_statistics import KeySplits, KeyStatistics, Routing
from solvers.model.method import MethodInputs
from solvers.model.objective import Objective
from solvers.model.problem import IntArray, Problem
from solvers.model.result import Result, SolverRun, Status, infeasible_result, make_result
from solvers.model.stop import Stop
from solvers.noise.gain_evidence import GainEvidence
from solvers.planner.allocation import Allocation, AllocationOptions, allocate, route_keys
from solvers.planner.decision import as_change, evidence_of, result_or_unchanged, with_trend
from solvers.planner.gain import without_unproven_moves
from solvers.planner.registry import AUTO
from solvers.planner.round import RoundPlan, ScalingRequest, plan_round
from solvers.planner.skew_check import SkewCheck, SkewCheckRequest, check_local_skew
from solvers.rebalance import fewest_moves
from solvers.rules.headroom import breaks_headroom, restores_headroom, why_no_headroom

MEASURING_METHODS = (AUTO, joint.NAME, fewest_moves.NAME)
"""Methods that use the noise of the loads."""


@dataclass(frozen=True, slots=True)
class KeyRouting:
    """What is known of the job's keys, the routes in force, and the edges that may be routed."""

    statistics: KeyStatistics = field(default_factory=KeyStatistics)
    routing: Routing = field(default_factory=dict)
    options: RoutingOptions = field(default_factory=RoutingOptions)
    splits: KeySplits = field(default_factory=dict)
    """Keys that are split, in force."""
    split_options: SplitOptions | None = None
    """Which keys may be split; None: splits stay as they are."""

    def measured(self, problem: Problem) -> SplitKeys:
        """The parts of keys and their loads."""
        return SplitKeys(problem, self.statistics, self.routing, self.splits)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PlanRequest:
    """Everything that one call of ``plan`` needs."""

    problem: Problem
    """The job as it was measured."""
    objective: Objective
    policy: JobPolicy
    """Its thresholds decide whether a plan is worth its moves."""
    budget: Budget
    """What the moves of the plan may cost."""
    stop: Stop
    """When the solver stops."""
    seed: int = 0
    method: str = AUTO
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the method, from the policy."""
    first_placement: str | None = None
    """A placement from scratch that is tried before the method, for a job's first plan."""
    inputs: MethodInputs = field(default_factory=MethodInputs)
    """What some methods need beside the problem."""
    precision: str = MEASURED
    """How far plans go on improving: ``measured`` or ``exact``, from the policy."""
    memory: TargetMemory | None = None
    """The target that earlier rounds of a joint search moved to."""
    is_first: bool = False
    """Whether this is the job's first plan and the policy has a budget for it."""
    keys: KeyRouting = field(default_factory=KeyRouting)
    scaling: ScalingRequest | None = None
    """How to scale; None if the job is not scaled."""
    has_other_change: bool = False
    """Whether the draft changes something beside key groups, keys and nodes, such as weights of a
    region. The plan is then a change in any case."""
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Operators that were measured for too few windows, and why: their load is not known."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Plan:
    """The plan of one round."""

    problem: Problem
    """The problem that was solved, with the nodes that the plan makes. With rules for several key
    groups its masks are narrowed, so that all assignments within them keep these rules."""
    rerouted: Problem
    """``problem`` with loads and traffic moved by the plan's routes, before serialisation costs."""
    result: Result
    routing: Routing = field(default_factory=dict)
    """Keys that do not go by hash under this plan."""
    memory: TargetMemory | None = None
    """What the next round of a joint search needs."""
    held_back: tuple[HeldBack, ...] = ()
    """Moves that would save traffic and do not pay for their cost."""
    nodes: RoundPlan | None = None
    """What the plan does with nodes; None if the job is not scaled."""
    precision: str = EXACT
    """``measured`` if moves whose gain is within the noise were not made, else ``exact``."""
    gain: GainEvidence | None = None
    """The evidence that the plan is better than the placement in force; None if the noise of the
    loads is not known, or if the plan was not decided by it."""
    skew: SkewCheck | None = None
    """Skew of single operators and edges; None if nothing was solved or decided."""
    splits: KeySplits = field(default_factory=dict)
    """Keys that are split under this plan."""
    split_bound_pct: float | None = None
    """A lower bound on the load distance without these splits; None if no key is split."""
    split_reasons: tuple[str, ...] = ()
    """Hot keys, and what the plan does about them."""

    def loads(self, objective: Objective, resource: str) -> Mapping[str, float]:
        """Load that each node carries under the plan; empty if the problem lacks the resource."""
        problem, assignment = self.problem, self.result.assignment
        if resource not in problem.resources:
            return {}
        after = self.after(objective) if objective.is_joint else problem
        load = after.load[:, problem.resources.index(resource)]
        sums = np.bincount(assignment, weights=load, minlength=problem.n_nodes)
        return dict(zip(problem.node_ids, sums.tolist(), strict=True))

    def after(self, objective: Objective) -> Problem:
        """The problem with the loads and the traffic that the plan leaves.

        Records that become remote cost CPU and network also under a plan that is for the balance
        alone: what will be measured contains that cost.
        """
        if self.problem.traffic_rate is None:
            return self.rerouted
        return problem_under_plan(objective, self.problem, self.result.assignment, self.rerouted)


def plan(request: PlanRequest) -> Plan:
    """Plan one round.

    Args:
        request: problem, objective, budget, stop, routes in force and how to scale.

    Returns:
        The plan. If it is not worth its moves, its result has the status ``unchanged`` and the
        reason. If no assignment keeps every rule, ``result.is_solved`` is false and
        ``result.reason`` says why.

    Raises:
        InvalidInput: the method does not fit the objective.
    """
    keys = request.keys
    reasons: tuple[str, ...] = ()
    if keys.split_options is not None:
        decision = decide_splits(keys.measured(request.problem), keys.split_options)
        reasons = decision.reasons
        if changed_keys(keys.splits, decision.splits):
            found = _with_other_splits(request, decision)
            if isinstance(found, Plan):
                return found
            reasons = (found,)
    return replace(
        _with_splits_in_force(request),
        splits=keys.splits,
        split_bound_pct=split_bound(keys.measured(request.problem), keys.splits),
        split_reasons=reasons,
    )


def _with_other_splits(request: PlanRequest, decision: SplitDecision) -> Plan | str:
    """The plan with other splits, or why it is not worth it.

    Key groups are placed by the loads that they have with the new parts. A key that is joined may
    not make the load less level, because nothing else asks for the join.
    """
    if request.scaling is not None or request.objective.is_joint:
        return "splits stay as they are: they change where the objective is balance and nodes stay"
    problem, keys = request.problem, request.keys
    split = problem_after_splits(keys.measured(problem), decision.splits)
    allocation = _allocate(replace(request, first_placement=None), split, request.budget)
    if not allocation.result.is_solved:
        return f"splits stay as they are: with other splits, {allocation.result.reason}"
    solved = allocation.result
    run = SolverRun(
        method=solved.method,
        bound=solved.bound or 0.0,
        seconds=solved.seconds,
        trace=solved.trace,
        reason=solved.reason,
    )
    result = make_result(problem, solved.assignment.copy(), run, after=split, is_changed=True)
    least = request.policy.thresholds.min_improvement_pct if _adds_parts(keys, decision) else 0.0
    if result.load_distance > result.load_distance_before - least and not result.forced_moves:
        return (
            "splits stay as they are: the best plan with other splits has a load distance of "
            f"{result.load_distance:.2f} %, now it is {result.load_distance_before:.2f} %"
        )
    return Plan(
        problem=_with_loads_of(allocation.narrowed or problem, problem),
        rerouted=split,
        result=result,
        routing=keys.routing,
        precision=_precision(request),
        splits=decision.splits,
        split_bound_pct=split_bound(keys.measured(problem), decision.splits),
        split_reasons=decision.reasons,
    )


def _adds_parts(keys: KeyRouting, decision: SplitDecision) -> bool:
    return any(
        set(groups) - set(keys.splits.get(operator, {}).get(key, ()))
        for operator, of_operator in decision.splits.items()
        for key, groups in of_operator.items()
    )


def _with_loads_of(narrowed: Problem, problem: Problem) -> Problem:
    """The narrowed problem with the loads and the traffic that were measured."""
    if narrowed is problem:
        return problem
    return replace(
        narrowed,
        load=problem.load,
        traffic_from=problem.traffic_from,
        traffic_to=problem.traffic_to,
        traffic_rate=problem.traffic_rate,
        noise=problem.noise,
    )


def _with_splits_in_force(request: PlanRequest) -> Plan:
    """The plan of one round with the splits as they are."""
    if request.first_placement is not None:
        first = _planned(request)
        if first.result.is_solved and first.result.status is not Status.UNCHANGED:
            return first
        found = _planned(replace(request, first_placement=None))
        note = f"the first placement {request.first_placement!r} makes no plan"
        reason = "; ".join(
            part for part in (note, first.result.reason, found.result.reason) if part
        )
        return replace(found, result=replace(found.result, reason=reason))
    return _planned(request)


def _planned(request: PlanRequest) -> Plan:
    """The plan of one round, without a second try."""
    nodes = None
    if request.scaling is None:
        reason = why_no_headroom(request.problem)
        if reason is not None:
            return _refused(request, request.problem, reason)
        allocation = _allocate(request, request.problem, request.budget)
        problem = allocation.narrowed or request.problem
    else:
        nodes = plan_round(
            request.problem,
            request.budget,
            lambda problem, budget: _allocate(request, problem, budget),
            request.scaling,
        )
        problem, allocation = nodes.problem, nodes.allocation
    found = _with_routes(request, problem, allocation, nodes)
    if not found.result.is_solved:
        return found
    if nodes is not None and not nodes.added:
        reason = why_no_headroom(problem)
        if reason is not None:
            return replace(_refused(request, problem, reason), nodes=nodes)
    decided = _decided(request, found)
    if _loses_headroom(found, decided):
        decided = replace(found, result=as_change(found.result))
    return _checked(request, decided)


def _refused(request: PlanRequest, problem: Problem, reason: str) -> Plan:
    """The plan of a round without a placement that keeps every rule."""
    result = infeasible_result(problem, method=request.method, reason=reason, seconds=0.0)
    return Plan(problem=problem, rerouted=problem, result=result)


def _loses_headroom(found: Plan, decided: Plan) -> bool:
    """Whether a plan with a part of the moves fills a node more after a loss than the whole one."""
    part = decided.result.assignment
    if np.array_equal(part, found.problem.current):
        return False
    return breaks_headroom(found.problem, found.result.assignment, part)


@dataclass(frozen=True, eq=False, slots=True)
class ChosenContent:
    """A plan's content that no solver has to search for, such as that of an earlier version."""

    assignment: IntArray
    """The node of each key group, as an index of ``problem.node_ids``."""
    routing: Routing
    method: str
    reason: str


def plan_with_content(
    problem: Problem, objective: Objective, keys: KeyRouting, content: ChosenContent
) -> Plan:
    """A plan with this content, with the figures that it has on the problem. It joins split keys.

    Args:
        problem: the job as it was measured.
        objective: what the plans of the job are for.
        keys: what is known of the job's keys, and the routes in force.
        content: assignment, routes and where they come from.

    Returns:
        The plan. It always counts as a change.
    """
    joined = problem_after_splits(keys.measured(problem), {})
    rerouted = _rerouted(joined, keys, content.routing)
    after = rerouted
    if objective.is_joint:
        after = problem_under_plan(objective, problem, content.assignment, rerouted)
    result = make_result(
        problem,
        content.assignment,
        SolverRun(
            method=content.method,
            bound=0.0,
            seconds=0.0,
            reason=content.reason,
            collocation_bound=100.0 if objective.is_joint else None,
        ),
        after=after,
        is_changed=True,
    )
    return Plan(problem=problem, rerouted=rerouted, result=result, routing=content.routing)


def _allocate(request: PlanRequest, problem: Problem, budget: Budget) -> Allocation:
    options = AllocationOptions(
        request.seed,
        request.method,
        request.params,
        first_placement=request.first_placement,
        inputs=request.inputs,
        memory=request.memory,
        is_first=request.is_first,
        precision=request.precision,
    )
    return allocate(request.objective, problem, budget, request.stop, options)


def _with_routes(
    request: PlanRequest, problem: Problem, allocation: Allocation, nodes: RoundPlan | None
) -> Plan:
    """The plan with the routes in force, and with the routes that bring keys together."""
    keys = request.keys
    routed = route_keys(
        allocation,
        RoutingRequest(
            objective=request.objective,
            problem=problem,
            statistics=keys.statistics,
            routing=keys.routing,
            options=keys.options,
            budget=request.budget,
            seed=request.seed,
        ),
    )
    return Plan(
        problem=problem,
        rerouted=_rerouted(problem, keys, routed.routing),
        result=routed.result,
        routing=routed.routing,
        memory=routed.memory,
        held_back=routed.held_back,
        nodes=nodes,
        precision=_precision(request),
    )


def _precision(request: PlanRequest) -> str:
    """The precision that the method can keep: without noise every plan is exact."""
    is_measuring = request.first_placement is None and request.method in MEASURING_METHODS
    knows_noise = is_measuring and fewest_moves.has_noise(request.problem)
    is_asked = request.precision == MEASURED or request.method == fewest_moves.NAME
    return MEASURED if is_asked and knows_noise else EXACT


def _decided(request: PlanRequest, found: Plan) -> Plan:
    """The plan, or a plan that moves nothing if the plan is not worth its moves.

    A plan that adds, marks or takes back nodes is carried out in any case. So is a plan that ends
    drained nodes, but it need not move key groups.
    """
    nodes, policy = found.nodes, request.policy
    if restores_headroom(found.problem, found.result.assignment):
        return replace(found, result=as_change(found.result))
    if nodes is not None and (nodes.added or nodes.marked or nodes.revived):
        result = found.result
        if not request.objective.is_joint:
            min_chance = policy.thresholds.min_gain_chance
            result = without_unproven_moves(found.problem, result, min_chance)
        return replace(found, result=as_change(result))
    figures = found.problem, found.result, policy, found.rerouted, found.after(request.objective)
    result = result_or_unchanged(*figures)
    is_kept = result is found.result
    if is_kept:
        gain = evidence_of(*figures)
        result = replace(result, reason=with_trend(found.problem, result.reason))
        found = replace(found, gain=gain)
    if request.has_other_change or (nodes is not None and nodes.ended):
        result = as_change(result)
    if is_kept:
        return replace(found, result=result)
    return replace(found, result=result, routing=request.keys.routing, rerouted=found.problem)


def _checked(request: PlanRequest, found: Plan) -> Plan:
    """The plan after the check of single operators and edges, which may move key groups."""
    nodes = found.nodes
    check = check_local_skew(
        SkewCheckRequest(
            problem=found.problem,
            result=found.result,
            objective=request.objective,
            policy=request.policy,
            budget=request.budget,
            stop=request.stop,
            seed=request.seed,
            method=request.method,
            changes_nodes=nodes is not None and bool(nodes.added or nodes.marked or nodes.revived),
            statistics=request.keys.statistics,
            routing=found.routing,
            unmeasured=request.unmeasured,
        )
    )
    if breaks_headroom(found.problem, found.result.assignment, check.result.assignment):
        reason = f"{check.reason}; a plan that levels it would break the headroom of the policy"
        check = replace(check, result=found.result, levelled=None, reason=reason)
    return replace(found, result=check.result, skew=check)


def _rerouted(problem: Problem, keys: KeyRouting, routing: Routing) -> Problem:
    """The problem with loads and traffic as they will be when keys follow ``routing``."""
    return problem_after(problem, keys.statistics, keys.routing, routing)
