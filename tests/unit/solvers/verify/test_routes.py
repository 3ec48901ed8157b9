"""The verifier of routes, compared with records counted one by one and with the solver."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.identity import hashed_key_group
from solvers.key_routing.decayed_statistics import CANDIDATES
from solvers.key_routing.key_memory import KeyMemory
from solvers.key_routing.rerouting import fullest_shares
from solvers.key_routing.routing_effect import key_moves_between, problem_after, route_cost
from solvers.model.budget import Budget
from solvers.model.key_statistics import EarlierPeriod, KeyStatistics, RoutedEdge
from solvers.model.problem import Problem
from solvers.verify.routes import (
    BALANCE,
    PromisedCosts,
    RoutedFacts,
    RouteRules,
    budget_violations,
    row_violations,
)

GROUPS, NODES = 3, 2
EDGE = RoutedEdge(("a",), ("b",))
RULES = RouteRules({"a": GROUPS, "b": GROUPS}, (EDGE,), 100, 1.2, CANDIDATES)

KEYS = st.integers(0, 7)
RECORDS = st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=60)
ROUTES = st.fixed_dictionaries(
    {name: st.dictionaries(KEYS.map(lambda n, o=name: f"{o}{n}"), st.integers(0, GROUPS - 1))
     for name in "ab"}
)  # fmt: skip


def group(routes, operator: str, key: str) -> int:
    return routes.get(operator, {}).get(key, hashed_key_group(key, GROUPS))


def measured(records, routes) -> tuple[Counter, Counter]:
    """Records by key group and by pair of key groups, counted one by one."""
    loads: Counter = Counter()
    flows: Counter = Counter()
    for a, b in records:
        left, right = group(routes, "a", f"a{a}"), group(routes, "b", f"b{b}")
        loads["a", left] += 1
        loads["b", right] += 1
        flows[left, GROUPS + right] += 1
    return loads, flows


def world(records, routes) -> tuple[Problem, KeyStatistics]:
    """The problem as measured under routes, and the counts of all keys."""
    loads, flows = measured(records, routes)
    ids = [(operator, number) for operator in "ab" for number in range(GROUPS)]
    problem = Problem(
        node_ids=("n0", "n1"),
        resources=("cpu",),
        capacity=np.ones((NODES, 1)),
        node_state=("alive",) * NODES,
        key_group_ids=tuple(f"{operator}/{number}" for operator, number in ids),
        operator_ids=tuple(operator for operator, _ in ids),
        load=np.array([[float(loads[name])] for name in ids]),
        state_bytes=np.array([100 * loads[name] for name in ids]),
        current=np.array([number % NODES for _, number in ids]),
        pause_c0_s=0.5,
        pause_s_per_byte=1e-3,
        traffic_from=np.array([a for a, _ in flows]),
        traffic_to=np.array([b for _, b in flows]),
        traffic_rate=np.array([float(n) for n in flows.values()]),
    )
    keys = {
        operator: dict(Counter(f"{operator}{record[side]}" for record in records))
        for side, operator in enumerate("ab")
    }
    pairs = {("a", "b"): dict(Counter((f"a{a}", f"b{b}") for a, b in records))}
    rates = {f"{operator}/{number}": float(loads[operator, number]) for operator, number in ids}
    return problem, KeyStatistics(keys, pairs, rates)


def nodes_of(problem: Problem) -> list[str]:
    return [problem.node_ids[node] for node in problem.current.tolist()]


@settings(max_examples=150, deadline=None)
@given(records=RECORDS, before=ROUTES, after=ROUTES)
def test_loads_and_traffic_are_those_of_the_records_routed_anew(records, before, after) -> None:
    problem, statistics = world(records, before)
    found = RoutedFacts(problem, statistics, before, after).problem_after()
    loads, flows = measured(records, after)
    for row, name in enumerate(problem.key_group_ids):
        operator, number = name.split("/")
        assert found.load[row, 0] == pytest.approx(loads[operator, int(number)], abs=1e-9)
    ends = zip(found.traffic_from.tolist(), found.traffic_to.tolist(), strict=True)
    rates = {flow: rate for flow, rate in zip(ends, found.traffic_rate, strict=True) if rate > 1e-9}
    assert rates == pytest.approx({flow: float(n) for flow, n in flows.items()})


@settings(max_examples=150, deadline=None)
@given(records=RECORDS, before=ROUTES, after=ROUTES)
def test_bytes_are_those_of_the_records_of_keys_that_move(records, before, after) -> None:
    problem, statistics = world(records, before)
    figures = RoutedFacts(problem, statistics, before, after).figures
    moved = {
        (operator, key)
        for operator in "ab"
        for key in {*before[operator], *after[operator]}
        if group(before, operator, key) != group(after, operator, key)
    }
    n_bytes = sum(100 * statistics.keys[operator].get(key, 0) for operator, key in moved)
    touched = {(o, group(r, o, key)) for o, key in moved for r in (before, after)}
    assert figures["rerouted_keys"] == len(moved)
    assert figures["route_bytes"] == pytest.approx(n_bytes, abs=1)
    assert figures["route_pause_s"] == pytest.approx(0.5 * len(touched) + 1e-3 * n_bytes, abs=2e-3)
    assert figures["routes"] == len(after["a"]) + len(after["b"])


@settings(max_examples=150, deadline=None)
@given(
    records=RECORDS, earlier=st.lists(RECORDS, max_size=2), before=ROUTES, after=ROUTES,
    part=st.floats(0.1, 3.0), missed=st.floats(0, 5),
)  # fmt: skip
def test_it_finds_what_the_solver_promises_also_of_statistics_that_are_not_whole(
    records, earlier, before, after, part, missed
) -> None:
    """Statistics of a part of the keys, with rates that differ from the flows, bounds and a
    memory."""
    problem, whole = world(records, before)
    few = {o: {k: part * n for k, n in list(keys.items())[::2]} for o, keys in whole.keys.items()}
    told = KeyStatistics(
        few, {e: {p: part * n for p, n in pairs.items()} for e, pairs in whole.pairs.items()},
        whole.group_rate, {"a": dict.fromkeys(few["a"], missed)}, {}, {"a": missed},
        {"a": 7.0, "b": 9.0},
        tuple(EarlierPeriod(float(2 - i), replace(world(r, before)[1], totals={"a": 5.0}))
              for i, r in enumerate(earlier)),
    )  # fmt: skip
    facts = RoutedFacts(problem, told, before, after)
    promised = problem_after(problem, told, before, after)
    found = facts.problem_after()
    assert found.load == pytest.approx(promised.load)
    assert _rates(found) == pytest.approx(_rates(promised))
    n_bytes, pause_s = route_cost(problem, key_moves_between(problem, told, before, after))
    assert facts.figures["route_bytes"] == pytest.approx(n_bytes, abs=1)
    assert facts.figures["route_pause_s"] == pytest.approx(pause_s, abs=2e-3)


def _rates(problem: Problem) -> dict[tuple[int, int], float]:
    ends = zip(problem.traffic_from.tolist(), problem.traffic_to.tolist(), strict=True)
    return {e: r for e, r in zip(ends, problem.traffic_rate.tolist(), strict=True) if r > 1e-9}


@settings(max_examples=100, deadline=None)
@given(records=RECORDS, earlier=st.lists(RECORDS, max_size=3), before=ROUTES, after=ROUTES)
def test_balance_is_judged_by_the_records_of_each_memory(records, earlier, before, after) -> None:
    problem, statistics = world(records, before)
    ages = [2.5 * n for n in range(len(earlier), 0, -1)]
    told = replace(statistics, earlier=tuple(
        EarlierPeriod(age, world(r, before)[1]) for age, r in zip(ages, earlier, strict=True)
    ))  # fmt: skip
    nodes = nodes_of(problem)
    found = list(RoutedFacts(problem, told, before, after).violations(nodes, RULES))
    said = {(operator, decay) for operator, decay in _too_full(told, before, after, ages)}
    assert len(found) == len(said)
    for operator, decay in said:
        assert any(f"of {operator!r} with decay {decay:g}," in v.message for v in found)
    # The solver's own measure has the same limit.
    memory = KeyMemory.of(told, EDGE, NODES)
    shares = [
        fullest_shares(problem, problem.current, memory, routes, EDGE, RULES.imbalance)
        for routes in (before, after)
    ]
    assert bool(found) == bool((shares[1] > np.maximum(1.0, shares[0]) * (1 + 1e-6)).any())


def _too_full(statistics, before, after, ages):
    """Computed by hand: every record of every period, with the weight of its period."""
    periods = [*zip(ages, (e.counted for e in statistics.earlier), strict=True), (0.0, statistics)]
    for operator in "ab":
        if before[operator] == after[operator]:
            continue
        for decay in CANDIDATES:
            weight: Counter = Counter()
            on = [[0.0] * NODES, [0.0] * NODES]
            for age, counted in periods:
                left = 1.0 if age == 0 else decay**age
                for key, n in counted.keys[operator].items():
                    weight[key] += left * n
                    for loads, routes in zip(on, (before, after), strict=True):
                        loads[group(routes, operator, key) % NODES] += left * n
            bound = max(1.2 * sum(weight.values()) / NODES, *weight.values())
            if max(on[1]) > max(bound, *on[0]) * (1 + 1e-6):
                yield operator, decay


RECORDS_OF_ALL = [(n, n) for n in range(8)]


def test_a_key_that_comes_onto_a_node_that_drains_is_a_violation() -> None:
    problem, statistics = world(RECORDS_OF_ALL, {})
    draining = replace(problem, node_state=("alive", "draining"))
    key = next(f"a{n}" for n in range(8) if hashed_key_group(f"a{n}", GROUPS) != 1)
    facts = RoutedFacts(draining, statistics, {}, {"a": {key: 1}})
    (found,) = [v for v in facts.violations(nodes_of(draining), RULES) if v.promise != BALANCE]
    assert found.promise == "routes.nodes"
    assert "'n1', which is draining" in found.message
    stays = RoutedFacts(draining, statistics, {}, {"a": {key: 2}})
    assert not [v for v in stays.violations(nodes_of(draining), RULES) if v.promise != BALANCE]


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        ([("a", "x", GROUPS)], "is routed to key group 3"),
        ([("a", "x", -1)], "is routed to key group -1"),
        ([("nobody", "x", 0)], "is routed to key group 0"),
        ([("a", "x", 0), ("a", "x", 1)], "has 2 routes"),
        ([("a", "x", 0), ("a", "y", 1), ("a", "z", 1)], "3 routes of 'a', allowed 2"),
    ],
)
def test_routes_that_cannot_be_are_violations(routes, said) -> None:
    rules = replace(RULES, max_routes=2)
    (found,) = row_violations(rules, {}, routes)
    assert (found.promise, said in found.message) == ("routes", True)


def test_what_keys_carry_counts_against_the_budget_on_top_of_what_key_groups_do() -> None:
    problem, _ = world(RECORDS_OF_ALL, {})
    plan = PromisedCosts(
        rerouted_keys=1, bytes=60, route_bytes=50, forced_moves=1, forced_bytes=40, pause_s=1.1,
        route_pause_s=1.0,
    )  # fmt: skip
    # The forced move has 0.5 s + 40 x 1 ms: 1.56 s are left.
    assert not list(budget_violations(problem, plan, Budget(bytes=110, pause_s=1.56)))
    found = budget_violations(problem, plan, Budget(bytes=109, pause_s=1.55))
    assert [violation.promise for violation in found] == ["budget.bytes", "budget.pause_s"]
    unrouted = replace(plan, rerouted_keys=0)
    assert not list(budget_violations(problem, unrouted, Budget(bytes=1, pause_s=0.1)))
