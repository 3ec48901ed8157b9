"""Keys follow their partners to key groups on their nodes, with their loads and their traffic."""

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
    moves_between,
    problem_after,
    route_cost,
    routing_after,
)
from solvers.model import metrics
from solvers.model.amortisation import AmortisationGate
from solvers.model.budget import Budget
from solvers.model.key_statistics import KeyStatistics, RoutedEdge, Routing
from solvers.model.objective import Objective, TradeWeights
from solvers.model.predicted_load import traffic_price
from solvers.model.problem import Problem
from solvers.model.stop import Stop
from solvers.model.traffic_costs import TrafficCosts
from solvers.planner.allocation import Allocation, allocate, route_keys
from solvers.verify.assignment import verify
from tests.unit.solvers.instances import names

GROUPS, NODES, KEYS = 4, 2, 40
FREE = AmortisationGate(records_per_byte=0.0)
EDGE = RoutedEdge(("parse", "clean"), ("count",))


def keys_of(operator: str) -> list[str]:
    return [f"{operator[0]}{i}" for i in range(KEYS)]


def world(rate: float = 10.0) -> tuple[Problem, KeyStatistics]:
    """Key i of parse (and of clean, which has the same keys) talks to key i of count alone."""
    operators = ("parse", "clean", "count")
    ids = [f"{operator}/{group}" for operator in operators for group in range(GROUPS)]
    keys = {"parse": keys_of("a"), "clean": keys_of("a"), "count": keys_of("b")}
    rates = dict.fromkeys(ids, 0.0)
    for operator in operators:
        for key in keys[operator]:
            rates[f"{operator}/{hashed_key_group(key, GROUPS)}"] += rate
    pairs = {
        ("parse", "clean"): {(key, key): rate for key in keys["parse"]},
        ("parse", "count"): dict.fromkeys(zip(keys["parse"], keys["count"], strict=True), rate),
    }
    row = {name: i for i, name in enumerate(ids)}
    flows: dict[tuple[int, int], float] = {}
    for (left, right), of_edge in pairs.items():
        for (a, b), pair_rate in of_edge.items():
            ends = (
                row[f"{left}/{hashed_key_group(a, GROUPS)}"],
                row[f"{right}/{hashed_key_group(b, GROUPS)}"],
            )
            flows[ends] = flows.get(ends, 0.0) + pair_rate
    problem = Problem(
        node_ids=tuple(f"n{i}" for i in range(NODES)),
        resources=("cpu",),
        capacity=np.ones((NODES, 1)),
        node_state=("alive",) * NODES,
        key_group_ids=tuple(ids),
        operator_ids=tuple(name.split("/")[0] for name in ids),
        load=np.array([[rates[name] / 100.0] for name in ids]),
        state_bytes=np.array([round(100 * rates[name]) for name in ids]),
        # Key group g of every operator on node g mod 2.
        current=np.array([int(name.split("/")[1]) % NODES for name in ids]),
        traffic_from=np.array([a for a, _ in flows]),
        traffic_to=np.array([b for _, b in flows]),
        traffic_rate=np.array(list(flows.values())),
    )
    counted = {operator: dict.fromkeys(keys[operator], rate) for operator in operators}
    return problem, KeyStatistics(counted, pairs, rates)


def all_moves(found):
    return [move for of_key in found.moves for move in of_key]


def test_every_pair_comes_together_and_followers_follow() -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    moves = all_moves(found)
    routing = routing_after(problem, {}, moves)
    after = problem_after(problem, statistics, {}, routing)
    assert metrics.collocation_factor(problem, problem.current) < 80.0
    assert metrics.collocation_factor(after, problem.current) == pytest.approx(100.0)
    placed = KeyMap(problem, routing)
    for key in keys_of("a"):
        nodes = {int(problem.current[placed.row(name, key)]) for name in ("parse", "clean")}
        assert len(nodes) == 1


def test_loads_and_traffic_are_moved_and_never_made() -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    routing = routing_after(problem, {}, all_moves(found))
    after = problem_after(problem, statistics, {}, routing)
    assert after.load.sum() == pytest.approx(problem.load.sum())
    assert (after.load >= 0).all()
    assert after.traffic_rate.sum() == pytest.approx(problem.traffic_rate.sum())
    assert problem_after(problem, statistics, routing, routing) is problem


def test_a_key_that_is_back_where_its_hash_is_needs_no_route() -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    routing = routing_after(problem, {}, all_moves(found))
    back = moves_between(problem, statistics, routing, {})
    assert len(back) == len(moves_between(problem, statistics, {}, routing)) > 0
    assert routing_after(problem, routing, back) == {}


def test_a_key_that_was_not_kept_weighs_what_its_pairs_do() -> None:
    problem, statistics = world()
    found = reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), FREE, imbalance=1.3)
    routing = routing_after(problem, {}, all_moves(found))
    known = moves_between(problem, statistics, {}, routing)
    not_kept = replace(statistics, keys={})
    unknown = moves_between(problem, not_kept, {}, routing)
    assert known
    assert [move.bytes for move in unknown] == pytest.approx([move.bytes for move in known])
    dear = AmortisationGate(records_per_byte=1e6, life=1.0)
    assert reroute(PlacedEdge(problem, problem.current, not_kept, {}, EDGE), dear).moves == ()


def test_what_may_have_been_missed_of_a_key_counts_as_bytes_and_not_as_load() -> None:
    problem, statistics = world()
    key = keys_of("b")[0]
    routing = {"count": {key: (hashed_key_group(key, GROUPS) + 1) % GROUPS}}
    doubtful = replace(statistics, errors={"count": {key: 10.0}})
    (sure,) = moves_between(problem, statistics, {}, routing)
    (most,) = moves_between(problem, doubtful, {}, routing)
    assert most.bytes == pytest.approx(2 * sure.bytes)
    loads = [problem_after(problem, given, {}, routing).load for given in (statistics, doubtful)]
    assert loads[0].tolist() == loads[1].tolist()


def test_a_price_that_no_key_earns_leaves_all_where_they_are() -> None:
    problem, statistics = world()
    dear = AmortisationGate(records_per_byte=1e6, life=1.0)
    assert reroute(PlacedEdge(problem, problem.current, statistics, {}, EDGE), dear).moves == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"node_state": ("alive", "draining")}, "while nodes drain"),
        ({"capacity": np.array([[1.0], [2.0]])}, "the same capacity"),
        ({"current": np.zeros(3 * GROUPS, dtype=np.int64)}, "not every node holds key groups"),
    ],
)
def test_what_cannot_be_routed_is_said(change, said) -> None:
    problem, statistics = world()
    changed = replace(problem, **change)
    found = reroute(PlacedEdge(changed, changed.current, statistics, {}, EDGE), FREE)
    assert found.moves == ()
    assert said in found.reason
    assert (
        "no pairs of keys"
        in reroute(PlacedEdge(problem, problem.current, KeyStatistics(), {}, EDGE), FREE).reason
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
    """Routed without a limit to moves of keys, and found to keep its promises."""
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
    """All keys that gain bring the nodes 10 % from the mean; all but two do with 5 % as well."""
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
    """All keys found are to come to the fuller node, and load counts a million times more."""
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
    # A node may keep what it has: with capacities this small it may get nothing more.
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
    """All keys found are to come to one node: few enough of them do."""
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
    assert of_left.reason == "saves 10 remote records over its life, costs the worth of 2000"
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


def test_a_long_key_is_cut_where_it_is_shown() -> None:
    problem, statistics = world()
    long = "x" * 1000
    pairs = {("parse", "count"): {(long, "b0"): 5.0, (long, "b1"): 4.0, (long, "b2"): 3.0}}
    found = reroute(
        PlacedEdge(problem, problem.current, replace(statistics, pairs=pairs), {}, EDGE),
        AmortisationGate(1e9),
    )
    assert all(len(held.what[0]) < 60 for held in found.held)
