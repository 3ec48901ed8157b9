"""One round for an objective: the rebalance methods, or load and traffic searched together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ballast.contracts.errors import InvalidInput
from solvers.collocate import joint
from solvers.collocate.joint_params import JointParams
from solvers.collocate.target_memory import TargetMemory
from solvers.key_routing.key_map import KeyMove
from solvers.key_routing.route_planner import plan_key_routes
from solvers.key_routing.routed_plan import RoutedPlan, RoutingRequest
from solvers.model.amortisation import HeldBack
from solvers.model.budget import Budget
from solvers.model.key_statistics import Routing
from solvers.model.objective import LEXICOGRAPHIC, WEIGHTED, Objective
from solvers.model.parameter_checks import options_of
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.rebalance.solve import solve

AUTO = "auto"
OF_THE_OBJECTIVE = ("max_load_distance", "objective", "traffic_weight", "load_weight")
"""Parameters of the joint search that the objective decides: the verifier knows only that."""


@dataclass(frozen=True, eq=False, slots=True)
class Allocation:
    """The result, what the next round of a joint search is to know, and what did not pay."""

    result: Result
    memory: TargetMemory | None = None
    held_back: tuple[HeldBack, ...] = ()
    routing: Routing = field(default_factory=dict)
    """Keys that do not go by hash under this plan."""
    route_moves: tuple[KeyMove, ...] = ()
    """Keys that come to another key group by it."""


def plan_for(
    objective: Objective,
    problem: Problem,
    budget: Budget,
    stop: Stop,
    seed: int = 0,
    method: str = AUTO,
    params: Mapping[str, Any] | None = None,
    memory: TargetMemory | None = None,
    *,
    is_first: bool = False,
) -> Allocation:
    """Plan a round. ``params`` are those of the method, or with ``auto`` those of each by name.

    ``is_first``: a first plan, with a budget for it. A joint one may then begin from nothing.
    """
    if not objective.is_joint:
        return Allocation(solve(problem, budget, stop, seed, method, params))
    if method not in (AUTO, joint.NAME):
        raise InvalidInput(
            f"method {method!r} knows nothing of traffic",
            value=method,
            allowed=f"{AUTO} or {joint.NAME} where the objective is joint",
        )
    given = dict(params or {})
    own = given.get(joint.NAME, {}) if method == AUTO else given
    _refuse_objective(own)
    options = options_of(JointParams, joint.NAME, own)
    if problem.traffic_rate is None or not problem.traffic_rate.any():
        others = {name: of for name, of in given.items() if name != joint.NAME}
        result = solve(problem, budget, stop, seed, AUTO, others if method == AUTO else {})
        reason = f"no traffic was measured, so only the load was levelled; {result.reason}"
        return Allocation(replace(result, reason=reason), memory)
    made = joint.plan(
        problem,
        budget,
        stop,
        seed,
        replace(
            options,
            **_aim(objective),
            costs=objective.costs,
            gate=objective.gate,
            target=memory,
            from_scratch=is_first,
        ),
    )
    return Allocation(made.result, made.target, made.held_back)


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
    """A search for something else than the verifier looks for would be refused after the work."""
    named = next((name for name in OF_THE_OBJECTIVE if name in params), None)
    if named is not None:
        raise InvalidInput(
            f"params.{joint.NAME}.{named} is given, and the objective decides it",
            value=params[named],
            remedy="leave it out, and say in the objective how load is traded for traffic",
        )


def _aim(objective: Objective) -> dict[str, Any]:
    """The objective as parameters of the joint search."""
    if objective.weights is None:
        return {
            "max_load_distance": objective.max_load_distance,
            "objective": LEXICOGRAPHIC,
        }
    weights = objective.weights
    return {
        "objective": WEIGHTED,
        "traffic_weight": weights.traffic,
        "load_weight": weights.load,
    }
