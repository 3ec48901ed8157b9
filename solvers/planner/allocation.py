"""Assign key groups to nodes by the job's objective: load alone, or load and traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ballast.contracts.errors import InvalidInput
from ballast.contracts.tables import EXACT, MEASURED
from solvers.collocate import joint
from solvers.collocate.joint_params import JointParams
from solvers.collocate.target_memory import TargetMemory
from solvers.key_routing.key_map import KeyMove
from solvers.key_routing.route_planner import plan_key_routes
from solvers.key_routing.routed_plan import RoutedPlan, RoutingRequest
from solvers.model.amortisation import HeldBack
from solvers.model.budget import Budget
from solvers.model.key_statistics import Routing
from solvers.model.method import MethodInputs, RebalanceMethod, with_inputs
from solvers.model.objective import LEXICOGRAPHIC, WEIGHTED, Objective
from solvers.model.parameter_checks import options_of
from solvers.model.problem import Problem
from solvers.model.result import Result, infeasible_result, with_bound_of
from solvers.model.stop import Stop
from solvers.planner.headroom_allocation import plan_with_headroom
from solvers.planner.objective_check import within_objective, without_higher_distance
from solvers.planner.registry import (
    AUTO,
    BALANCE,
    FIRST_PLACEMENT,
    JOINT,
    METHOD_NAMES,
    method_named,
)
from solvers.rebalance.solve import solve, solve_by
from solvers.rules.conflicts import why_rules_conflict
from solvers.rules.narrowing import is_within_masks, narrowed

GUIDE_SHARE = 0.4
"""Share of the time for a plan without the rules for several key groups, where there are any."""
SHORTEST_S = 1e-3
BALANCE_KIND, JOINT_KIND = "balance", "joint"
JOINT_SEARCH = (AUTO, joint.NAME)
"""Names of the search that knows the objective."""
SET_BY_OBJECTIVE = (
    "max_load_distance", "objective", "traffic_weight", "load_weight", "costs", "gate", "target",
)  # fmt: skip
"""Parameters of the joint search that the objective sets. The verifier checks the objective."""


@dataclass(frozen=True, eq=False, slots=True)
class Allocation:
    """An assignment of key groups to nodes, and what a joint search returns beside it."""

    result: Result
    memory: TargetMemory | None = None
    """What the next round of a joint search needs."""
    held_back: tuple[HeldBack, ...] = ()
    """Moves that would save traffic and do not pay for their cost."""
    routing: Routing = field(default_factory=dict)
    """Keys that do not go by hash under this plan."""
    route_moves: tuple[KeyMove, ...] = ()
    """Keys that the plan moves to another key group."""
    narrowed: Problem | None = None
    """The problem with narrower masks, within which every assignment keeps the rules for several
    key groups; None if there are none. Later steps of the plan have to stay within them."""


@dataclass(frozen=True, slots=True)
class AllocationOptions:
    """How an allocation is searched for."""

    seed: int = 0
    method: str = AUTO
    """A method of the registry for the objective."""
    params: Mapping[str, Any] | None = None
    """Parameters of the method; with ``auto``, parameters of each method by its name."""
    memory: TargetMemory | None = None
    """The target that earlier rounds of a joint search moved to."""
    is_first: bool = False
    """Whether this is the job's first plan, with a budget for it. A joint search may then place
    everything from scratch."""
    first_placement: str | None = None
    """The placement from scratch to use instead of the method; None for every other plan."""
    inputs: MethodInputs = field(default_factory=MethodInputs)
    """What some methods need beside the problem."""
    precision: str = MEASURED
    """``measured``: ``auto`` and ``joint`` make no moves whose gain is within the noise, where the
    noise of the loads is known; ``exact``: plans go on to the best figures."""


def allocate(
    objective: Objective,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions | None = None,
) -> Allocation:
    """Assign key groups to nodes by the objective.

    Args:
        objective: balance alone, or load and traffic together.
        problem: nodes, key groups, loads and traffic.
        budget: what the moves may cost.
        stop: when the search stops.
        options: seed, method and its parameters.

    Returns:
        The allocation. Its result says why if no assignment keeps every rule.

    Raises:
        InvalidInput: the method is not one for the objective or lacks an input, or a parameter is
            unknown or is set by the objective.
    """
    options = options or AllocationOptions()
    conflict = why_rules_conflict(problem)
    if conflict is not None:
        return _refused(problem, options, conflict)
    if problem.rules is None or problem.rules.headroom is None:
        return _allocate_by_rules(objective, problem, budget, stop, options)
    return _allocate_with_headroom(objective, problem, budget, stop, options)


def _allocate_with_headroom(
    objective: Objective,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions,
) -> Allocation:
    """Allocate until a plan keeps the headroom that a rule asks for, as far as one is found."""
    first: list[Allocation] = []

    def solve(shaped: Problem, part: Stop, is_exact: bool) -> Result:
        how = replace(options, precision=EXACT) if is_exact else options
        if not first:
            first.append(_allocate_by_rules(objective, problem, budget, part, how))
            return first[0].result
        narrow = first[0].narrowed
        if narrow is not None:
            shaped = replace(shaped, allowed=narrow.allowed, pinned=narrow.pinned)
        return _allocate_by_masks(objective, shaped, budget, part, how).result

    found = plan_with_headroom(objective, problem, stop, solve)
    return first[0] if found.is_first else replace(first[0], result=found.result)


def _allocate_by_rules(
    objective: Objective,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions,
) -> Allocation:
    """Allocate by the objective; the plan keeps all rules but that for headroom."""
    if problem.rules is None or not problem.rules.are_of_several:
        return _allocate_by_masks(objective, problem, budget, stop, options)
    return _allocate_narrowed(objective, problem, budget, stop, options)


def _refused(problem: Problem, options: AllocationOptions, reason: str) -> Allocation:
    result = infeasible_result(problem, method=options.method, reason=reason, seconds=0.0)
    return Allocation(result, options.memory)


def _allocate_narrowed(
    objective: Objective,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions,
) -> Allocation:
    """Allocate with rules for several key groups, which no method knows.

    A first search without them is the guide that decides how the masks are narrowed. If its plan
    keeps the rules, it is the plan. The bound is that of the first search: fewer masks permit more
    plans, so it holds for all of them.
    """
    clock = stop.start()
    part = stop if stop.seconds is None else Stop(GUIDE_SHARE * stop.seconds, stop.steps)
    guide = _allocate_by_masks(objective, problem, budget, part, options)
    if not guide.result.is_solved:
        return guide
    narrow = narrowed(problem, guide.result.assignment, options.seed)
    if narrow.reason is not None:
        return _refused(problem, options, narrow.reason)
    if is_within_masks(narrow.problem, guide.result.assignment):
        return replace(guide, narrowed=narrow.problem)
    remaining = clock.remaining()
    rest = stop if remaining is None else Stop(max(remaining, SHORTEST_S), stop.steps)
    found = _allocate_by_masks(objective, narrow.problem, budget, rest, options)
    if not found.result.is_solved:
        names = ", ".join(problem.rules.names) if problem.rules else ""
        return _refused(problem, options, f"{found.result.reason} (with the rules {names})")
    result = with_bound_of(found.result, guide.result)
    return replace(found, result=result, narrowed=narrow.problem)


def _allocate_by_masks(
    objective: Objective,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions,
) -> Allocation:
    """Allocate by the objective; the method keeps pins and allowed nodes."""
    if options.first_placement is not None:
        return _placed_first(objective, problem, budget, stop, options)
    if objective.is_joint:
        return _allocate_jointly(objective, problem, budget, stop, options)
    return Allocation(_balanced(problem, budget, stop, options))


def _placed_first(
    objective: Objective, problem: Problem, budget: Budget, stop: Stop, options: AllocationOptions
) -> Allocation:
    """The placement from scratch that the policy names for the first plan."""
    name = options.first_placement or ""
    method = method_named(FIRST_PLACEMENT, name, "first")
    result = _solved(method, problem, budget, stop, replace(options, params={}))
    check = within_objective if objective.is_joint else without_higher_distance
    return Allocation(check(objective, problem, budget, result), options.memory)


def _balanced(problem: Problem, budget: Budget, stop: Stop, options: AllocationOptions) -> Result:
    """The plan of a method that balances load."""
    method = method_named(BALANCE, options.method, BALANCE_KIND)
    params = dict(options.params or {})
    if options.method == AUTO:
        params = {"precision": options.precision, **_known_to_auto(params)}
    return _solved(method, problem, budget, stop, replace(options, params=params))


def _solved(
    method: RebalanceMethod,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions,
) -> Result:
    parsed = options_of(method.params, method.name, options.params or {})
    parsed = with_inputs(method, parsed, options.inputs)
    return solve_by(method, problem, budget, stop, options.seed, parsed)


def _allocate_jointly(
    objective: Objective,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions,
) -> Allocation:
    method = method_named(JOINT, options.method, JOINT_KIND)
    if method.name not in JOINT_SEARCH:
        return _by_other_method(method, objective, problem, budget, stop, options)
    params = dict(options.params or {})
    own = params.get(joint.NAME, {}) if method.name == AUTO else params
    _refuse_objective(own)
    joint_params = options_of(JointParams, joint.NAME, {"precision": options.precision, **own})
    if not _has_traffic(problem):
        return _levelled(problem, budget, stop, options, params if method.name == AUTO else {})
    found = joint.plan(
        problem,
        budget,
        stop,
        options.seed,
        replace(
            _with_objective(joint_params, objective),
            costs=objective.costs,
            gate=objective.gate,
            target=options.memory,
            from_scratch=options.is_first,
        ),
    )
    return Allocation(found.result, found.target, found.held_back)


def _by_other_method(
    method: RebalanceMethod,
    objective: Objective,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions,
) -> Allocation:
    """The plan of a method that does not know the objective, if it keeps what that promises."""
    if not _has_traffic(problem):
        return _levelled(problem, budget, stop, options, {})
    result = _solved(method, problem, budget, stop, options)
    return Allocation(within_objective(objective, problem, budget, result), options.memory)


def _levelled(
    problem: Problem,
    budget: Budget,
    stop: Stop,
    options: AllocationOptions,
    params: Mapping[str, Any],
) -> Allocation:
    """The plan for the load alone, by ``auto``."""
    with_precision = {"precision": options.precision, **_known_to_auto(params)}
    result = solve(problem, budget, stop, options.seed, AUTO, with_precision)
    reason = f"no traffic was measured, so only the load was levelled; {result.reason}"
    return Allocation(replace(result, reason=reason), options.memory)


def _known_to_auto(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters without those of methods that ``auto`` does not run."""
    run = {each.name for each in fields(BALANCE[AUTO].params)}
    return {name: of for name, of in params.items() if name in run or name not in METHOD_NAMES}


def _has_traffic(problem: Problem) -> bool:
    return problem.traffic_rate is not None and bool(problem.traffic_rate.any())


def route_keys(allocation: Allocation, request: RoutingRequest) -> Allocation:
    """Return the allocation with routes for keys, where the objective and the budget allow them."""
    plan = RoutedPlan(allocation.result, held_back=allocation.held_back)
    routed = plan_key_routes(plan, request)
    return replace(
        allocation,
        result=routed.result,
        held_back=routed.held_back,
        routing=routed.routing,
        route_moves=routed.route_moves,
    )


def _refuse_objective(params: Mapping[str, Any]) -> None:
    """Refuse parameters that the objective sets: the verifier would refuse the plan afterwards."""
    named = next((name for name in SET_BY_OBJECTIVE if name in params), None)
    if named is not None:
        raise InvalidInput(
            f"params.{joint.NAME}.{named} is given, and the objective decides it",
            value=params[named],
            remedy="leave it out, and set in the objective how load is traded for traffic",
        )


def _with_objective(params: JointParams, objective: Objective) -> JointParams:
    """The parameters of the joint search with the values that the objective sets."""
    weights = objective.weights
    if weights is None:
        return replace(
            params, objective=LEXICOGRAPHIC, max_load_distance=objective.max_load_distance
        )
    return replace(
        params,
        objective=WEIGHTED,
        traffic_weight=weights.traffic,
        load_weight=weights.load,
    )
