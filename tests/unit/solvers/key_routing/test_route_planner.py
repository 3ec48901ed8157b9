"""Plans get routes for keys within budget, load distance, caps and balance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ballast.contracts.identity import hashed_key_group
from solvers.key_routing.key_map import KeyMap, KeyMove
from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.rerouting import PlacedEdge, ReroutingResult, fullest_shares, reroute
from solvers.key_routing.routed_plan import RoutingOptions, RoutingRequest
from solvers.key_routing.routing_effect import (
    problem_after,
    route_cost,
    routing_after,
)
from solvers.model import metrics
from solvers.model.amortisation import AmortisationGate
from solvers.model.budget import Budget
from solvers.model.key_statistics import KeyStatistics, Routing
from solvers.model.objective import Objective, TradeWeights
from solvers.model.predicted_load import traffic_price
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.model.traffic_costs import TrafficCosts
from solvers.planner.allocation import Allocation, allocate, route_keys
from solvers.verify.assignment import verify
from tests.unit.solvers.instances import names
from tests.unit.solvers.key_routing.instances import (
    EDGE,
    FREE,
    GROUPS,
    NODES,
    keys_of,
    world,
)


def routed(budget: Budget, max_load_distance: float = 30.0, **options) -> Allocation:
    problem, statistics = world()
    objective = Objective("joint", max_load_distance, gate=FREE)
    planned = allocate(objective, problem, Budget(moves=0), Stop(steps=5))
    given = RoutingOptions((EDGE,), imbalance=1.3, **options)
    made = route_keys(planned, RoutingRequest(objective, problem, statistics, {}, given, budget))
    after = problem_after(problem, statistics, {}, made.routing) if made.routing else None
    placed = names(problem, made.result.assignment)
    assert verify(problem, Budget(moves=0), placed, made.result.to_dict(), objective, after) == []
    return made


def test_a_plan_with_routes_promises_what_the_verifier_finds() -> None:
    made = routed(Budget())
    assert made.result.collocation_factor == pytest.approx(100.0)
    assert made.result.moves == 0
    assert made.result.status == "feasible"
    assert made.result.load_distance <= 30.0


def test_the_budget_of_bytes_and_the_number_of_routes_hold() -> None:
    free = routed(Budget())
    needed = sum(move.bytes for move in free.route_moves)
    half = routed(Budget(bytes=int(needed / 2)))
    assert 0 < sum(move.bytes for move in half.route_moves) <= needed / 2
    assert half.result.collocation_factor < free.result.collocation_factor
    none = routed(Budget(bytes=1))
    assert (none.routing, none.result.status) == ({}, "unchanged")
    few = routed(Budget(), max_routes=3)
    assert all(len(routes) <= 3 for routes in few.routing.values())


def test_routes_in_force_stay_where_nothing_is_to_be_gained() -> None:
    problem, statistics = world()
    before = {"count": {"b1": (hashed_key_group("b1", GROUPS) + 2) % GROUPS}}  # the same node
    balance = allocate(Objective(), problem, Budget(moves=0), Stop(steps=5))
    made = route_keys(
        balance,
        RoutingRequest(Objective(), problem, statistics, before, RoutingOptions(), Budget()),
    )
    assert made.routing == before
    assert made.result is balance.result


@pytest.mark.parametrize(("operator", "is_routed"), [("count", True), ("parse", False)])
def test_more_routes_in_force_than_allowed_bar_no_others_and_do_not_grow(
    monkeypatch, operator: str, is_routed: bool
) -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    monkeypatch.setattr(
        "solvers.key_routing.route_planner.reroute",
        lambda *_, **__: ReroutingResult(found.moves[:1]),
    )
    in_force = {operator: {"not counted": 0, "nor this": 1}}
    objective = Objective("joint", 60.0, gate=FREE)
    planned = allocate(objective, problem, Budget(moves=0), Stop(steps=5))
    options = RoutingOptions((EDGE,), max_routes=1, imbalance=2.0)
    made = route_keys(
        planned, RoutingRequest(objective, problem, statistics, in_force, options, Budget())
    )
    assert bool(made.route_moves) == is_routed
    assert made.routing[operator] == in_force[operator]


def routed_in(problem: Problem, statistics: KeyStatistics, objective: Objective) -> Allocation:
    """Plan routes without a limit on moves of keys, and verify the plan."""
    planned = allocate(objective, problem, Budget(moves=0), Stop(steps=5))
    options = RoutingOptions((EDGE,), imbalance=1.3)
    made = route_keys(
        planned, RoutingRequest(objective, problem, statistics, {}, options, Budget())
    )
    after = problem_after(problem, statistics, {}, made.routing) if made.routing else None
    placed = names(problem, made.result.assignment)
    assert verify(problem, Budget(moves=0), placed, made.result.to_dict(), objective, after) == []
    return made


def test_keys_are_sent_back_until_the_load_is_as_level_as_allowed() -> None:
    """All keys that gain give a load distance of 10 %; all but two give 5 %."""
    problem, statistics = world()
    roomy, tight = (
        routed_in(problem, statistics, Objective("joint", allowed, gate=FREE))
        for allowed in (30.0, 5.0)
    )
    assert roomy.result.load_distance > 5.0 >= tight.result.load_distance
    assert len(roomy.route_moves) > len(tight.route_moves) > 0.9 * len(roomy.route_moves)


def test_a_plan_says_why_keys_that_would_gain_get_no_route() -> None:
    problem, statistics = world()
    objective = Objective("joint", 30.0, gate=FREE)
    planned = allocate(objective, problem, Budget(moves=0), Stop(steps=5))
    options = RoutingOptions((EDGE,), imbalance=1.3)
    made = route_keys(
        planned, RoutingRequest(objective, problem, statistics, {}, options, Budget(bytes=1))
    )
    assert made.route_moves == ()
    assert "keys from parse to count would gain by a route and get none" in made.result.reason
    assert "bytes would move, and the budget is 1" in made.result.reason


@pytest.mark.parametrize(
    ("budget", "max_routes"), [(Budget(bytes=3000), 100), (Budget(pause_s=0.4), 100), (Budget(), 3)]
)
def test_as_many_keys_move_as_the_budget_pays_for(budget: Budget, max_routes: int) -> None:
    problem, statistics = world()
    problem = replace(problem, pause_c0_s=0.1)
    objective = Objective("joint", 30.0, gate=FREE)
    planned = allocate(objective, problem, Budget(moves=0), Stop(steps=5))
    options = RoutingOptions((EDGE,), max_routes=max_routes, imbalance=1.3)
    made = route_keys(planned, RoutingRequest(objective, problem, statistics, {}, options, budget))
    roomy = replace(options, max_routes=100)
    everything = route_keys(
        planned, RoutingRequest(objective, problem, statistics, {}, roomy, Budget())
    )
    assert 0 < len(made.route_moves) < len(everything.route_moves)
    n_bytes, pause_s = route_cost(problem, made.route_moves)
    assert budget.bytes is None or 0.5 * budget.bytes < n_bytes <= budget.bytes
    assert budget.pause_s is None or pause_s <= budget.pause_s
    assert max(len(routes) for routes in made.routing.values()) <= max_routes


def test_by_weights_a_plan_says_what_its_keys_are_not_worth(monkeypatch) -> None:
    """All keys would move to the fuller node, and load has a million times more weight."""
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    fuller = int(metrics.node_loads(problem, problem.current)[:, 0].argmax())
    to_it = tuple(m for m in found.moves if problem.current[m[0].target] == fuller)
    monkeypatch.setattr(
        "solvers.key_routing.route_planner.reroute", lambda *_, **__: ReroutingResult(to_it)
    )
    dear = Objective("joint", 30.0, gate=FREE, weights=TradeWeights(1e-6, 1.0))
    planned = allocate(dear, problem, Budget(moves=0), Stop(steps=5))
    options = RoutingOptions((EDGE,), imbalance=2.0)
    made = route_keys(planned, RoutingRequest(dear, problem, statistics, {}, options, Budget()))
    assert made.route_moves == ()
    assert "by the weights, what they save is not worth a load distance of" in made.result.reason


def test_keys_bring_no_node_over_a_cap() -> None:
    problem, statistics = world()
    two = {
        "resources": ("cpu", "memory"),
        "load": np.repeat(problem.load, 2, axis=1),
        "weight": None,
        "balanced": np.array([True, False]),
    }
    objective = Objective("joint", 30.0, gate=FREE)
    # A node may keep its load; with capacities this small it may get no more.
    full = replace(problem, **two, capacity=np.array([[1.0, 0.01]] * NODES))
    made = routed_in(full, statistics, objective)
    moved = problem_after(full, statistics, {}, made.routing)
    assert not metrics.over_cap(full, made.result.assignment, moved.load).any()
    roomy = replace(problem, **two, capacity=np.array([[1.0, 100.0]] * NODES))
    assert routed_in(roomy, statistics, objective).route_moves


def test_keys_that_come_together_do_not_drive_others_out_of_their_rack(monkeypatch) -> None:
    small, statistics = world()
    racks = ("east", "east", "west", "west")
    problem = replace(
        small,
        node_ids=tuple(f"n{i}" for i in range(4)),
        capacity=np.ones((4, 1)),
        node_state=("alive",) * 4,
        rack=racks,
        current=np.array([int(name.split("/")[1]) for name in small.key_group_ids]),
    )
    keys = KeyMap(problem, {})
    ends = [(b, keys.hashed("parse", a), keys.hashed("count", b))
            for a, b in zip(keys_of("a"), keys_of("b"), strict=True)]  # fmt: skip
    near = [(b, left, right) for b, left, right in ends if left ^ 1 == right]
    (together, home, there), (apart, _, from_group) = near[:2]
    count = keys.groups["count"]
    joined = KeyMove("count", together, count[there], count[home], 10.0)
    driven_out = KeyMove("count", apart, count[from_group], count[from_group ^ 2], 10.0)
    costs = TrafficCosts(within_rack=0.1)
    objective = Objective("joint", 200.0, costs, FREE)
    for moves, is_routed in (((joined,), True), ((joined, driven_out), False)):
        after = problem_after(problem, statistics, {}, routing_after(problem, {}, moves))
        fell = traffic_price(problem, problem.current, costs) - traffic_price(
            after, problem.current, costs
        )
        assert fell == pytest.approx(1.0 if is_routed else -8.0)
        monkeypatch.setattr(
            "solvers.key_routing.route_planner.reroute",
            lambda *_, m=moves, **__: ReroutingResult((m,)),
        )
        assert bool(routed_in(problem, statistics, objective).route_moves) == is_routed


def test_a_share_of_the_moves_keeps_the_bound_of_a_stage(monkeypatch) -> None:
    """All keys would move to one node; a small share of them does."""
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    to_first = tuple(m for m in found.moves if problem.current[m[0].target] == 0)
    monkeypatch.setattr(
        "solvers.key_routing.route_planner.reroute", lambda *_, **__: ReroutingResult(to_first)
    )
    objective = Objective("joint", 200.0, gate=FREE)
    planned = allocate(objective, problem, Budget(moves=0), Stop(steps=5))

    def fullest(routing: Routing) -> list[float]:
        memory = KeyMemory.of(statistics, EDGE, NODES)
        given = (problem, problem.current, memory, routing, EDGE, 1.05)
        return fullest_shares(*given).tolist()

    options = RoutingOptions((EDGE,), imbalance=1.05)
    made = route_keys(
        planned, RoutingRequest(objective, problem, statistics, {}, options, Budget())
    )
    everything = routing_after(problem, {}, [move for moves in to_first for move in moves])
    assert max(fullest(everything)) > max(1.0, *fullest({}))
    assert max(fullest(made.routing)) <= max(1.0, *fullest({}))
    assert made.route_moves


def test_keys_that_do_not_pay_are_named_with_both_figures() -> None:
    problem, statistics = world()
    dear = AmortisationGate(
        records_per_byte=1.0
    )  # a key of 10 records a second holds 1,000 bytes an operator
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), dear, imbalance=1.3)
    assert found.moves == ()
    apart = [
        i
        for i, (a, b) in enumerate(zip(keys_of("a"), keys_of("b"), strict=True))
        if (hashed_key_group(a, GROUPS) - hashed_key_group(b, GROUPS)) % NODES
    ]
    wanted = {f"'a{i}' of parse" for i in apart} | {f"'b{i}' of count" for i in apart}
    assert {held.what[0] for held in found.held} == wanted
    assert {(held.kind, held.count, held.saved_rate) for held in found.held} == {("key", 1, 10.0)}
    of_left = next(held for held in found.held if held.what[0].endswith("of parse"))
    assert of_left.reason == "saves 10 remote records over its lifetime, costs as much as 2000"
    planned = allocate(Objective("joint", 30.0, gate=dear), problem, Budget(moves=0), Stop(steps=5))
    made = route_keys(
        planned,
        RoutingRequest(
            Objective("joint", 30.0, gate=dear),
            problem,
            statistics,
            {},
            RoutingOptions((EDGE,), imbalance=1.3),
            Budget(),
        ),
    )
    assert {held.what for held in found.held} <= {held.what for held in made.held_back}
    free = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    assert free.held == ()
