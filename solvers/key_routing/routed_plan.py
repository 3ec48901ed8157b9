"""A plan with routes for keys, and the request that decides which keys are routed."""

from __future__ import annotations

from dataclasses import dataclass, field

from solvers.key_routing import STICKY
from solvers.key_routing.key_map import KeyMove
from solvers.model.amortisation import HeldBack
from solvers.model.budget import Budget
from solvers.model.key_statistics import KeyStatistics, RoutedEdge, Routing
from solvers.model.objective import Objective
from solvers.model.problem import Problem
from solvers.model.result import Result


@dataclass(frozen=True, eq=False, slots=True)
class RoutedPlan:
    """The placement of the key groups and the routes of keys.

    Attributes:
        result: Placement of the key groups, with figures that include the routes.
        routing: Keys that do not go to the key group of their hash.
        route_moves: Keys that the plan brings to another key group.
        held_back: Moves whose gain does not pay for their state.
    """

    result: Result
    routing: Routing = field(default_factory=dict)
    route_moves: tuple[KeyMove, ...] = ()
    held_back: tuple[HeldBack, ...] = ()


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """Limits of key routing, from the policy.

    Attributes:
        edges: Edges whose keys are routed, in this order.
        max_routes: Most routes of one operator.
        imbalance: Most records of a node over the mean, for each stage.
        method: Name of the method.
    """

    edges: tuple[RoutedEdge, ...] = ()
    max_routes: int = 100_000
    imbalance: float = 1.1
    method: str = STICKY


@dataclass(frozen=True, eq=False, slots=True)
class RoutingRequest:
    """Everything but the placement that decides which keys are routed.

    Attributes:
        objective: The objective of the plan; only a joint one with a gate routes keys.
        problem: The problem with its measured loads and traffic.
        statistics: Counted keys and key pairs of this period and earlier ones.
        routing: Routes in force before the plan.
        options: Edges and limits.
        budget: Limits of the whole plan, key groups and keys together.
        seed: Seed of the graph partitioning.
    """

    objective: Objective
    problem: Problem
    statistics: KeyStatistics
    routing: Routing
    options: RoutingOptions
    budget: Budget
    seed: int = 0
