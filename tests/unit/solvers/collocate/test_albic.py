"""ALBIC and COLA have the properties that [ICDE17] states (Algorithm 2, 4.3.2 and 2.1)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from ballast.contracts.errors import InvalidInput
from solvers.collocate import METHODS, albic, cola
from solvers.collocate.albic import AlbicParams, _Albic
from solvers.collocate.clusters import connected_sets, downstream_key_groups, heavy_mask
from solvers.collocate.cola import ColaParams
from solvers.collocate.contraction import contract
from solvers.model.budget import Budget
from solvers.model.parameter_checks import options_of
from solvers.model.problem import Problem
from solvers.model.result import Status
from solvers.model.stop import Stop
from solvers.model.traffic_graph import TrafficGraph
from solvers.verify.assignment import verify
from tests.unit.solvers.collocate.instances import (
    budgets,
    pairs_apart,
    problems,
    with_operators,
    with_traffic,
)
from tests.unit.solvers.instances import names

QUICK = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
STEPS = Stop(steps=20)


def run(problem: Problem, budget: Budget, **params: object) -> albic.Result:
    return albic.solve(problem, budget, STEPS, 1, AlbicParams(**{"rebalance": "flux", **params}))


def test_the_parameters_are_those_of_the_paper() -> None:
    options = AlbicParams()
    assert (options.max_ld, options.max_pl, options.step_pl, options.score_factor) == (
        10.0, 25.0, 5.0, 1.5,
    )  # fmt: skip
    assert options.pairs == 1


def fan_out() -> Problem:
    """One sender with three key groups downstream: rates 4, 1 and 1; the average is 2."""
    problem = with_traffic([1.0] * 4, [0, 1, 2, 3], [(0, 1, 4.0), (0, 2, 1.0), (0, 3, 1.0)])
    return with_operators(problem, ["a", "b", "b", "b"])


def test_a_pair_counts_from_sf_times_the_average_on() -> None:
    problem = fan_out()
    graph = TrafficGraph.of(problem)
    assert downstream_key_groups(problem, graph).tolist() == [3, 0, 0, 0]
    for factor, heavy in ((1.5, [1]), (1.99, [1]), (2.0, []), (0.4, [1, 2, 3])):
        chosen = graph.partner[heavy_mask(problem, graph, factor)]
        assert sorted(chosen.tolist()) == heavy


def test_sets_with_a_common_key_group_become_one() -> None:
    sets = connected_sets(7, [0, 1, 4], [1, 2, 5])
    assert sorted(sorted(s.tolist()) for s in sets) == [[0, 1, 2], [4, 5]]


def test_case_1_collocates_on_the_node_with_the_smaller_load() -> None:
    problem = with_traffic([3.0, 1.0, 1.0], [0, 1, 0], [(0, 1, 5.0)], capacity=[100.0, 100.0])
    assert _Albic(problem, Budget(moves=1), STEPS, 1, AlbicParams()).ties([], 1)[0] == {0: 1, 1: 1}


def test_case_2_collocates_on_the_node_of_the_partition() -> None:
    """0 and 1 share the fuller node; 2 joins them although its node is emptier."""
    problem = with_operators(
        with_traffic(
            [3.0, 3.0, 1.0], [0, 0, 1], [(0, 1, 5.0), (1, 2, 5.0)], capacity=[100.0, 100.0]
        ),
        ["a", "b", "c"],
    )
    run_ = _Albic(problem, Budget(moves=2), STEPS, 1, AlbicParams(score_factor=0.5))
    partitions = run_.partitions(25.0)
    assert [p.tolist() for p in partitions] == [[0, 1]]
    assert run_.ties(partitions, 1)[0] == {0: 0, 1: 0, 2: 0}


def test_case_3_brings_two_partitions_to_the_node_with_the_smaller_load() -> None:
    problem = with_operators(
        with_traffic(
            [2.0, 2.0, 1.0, 1.0],
            [0, 0, 1, 1],
            [(0, 1, 5.0), (1, 2, 5.0), (2, 3, 5.0)],
            capacity=[100.0, 100.0],
        ),
        ["a", "b", "c", "d"],
    )
    run_ = _Albic(problem, Budget(moves=2), STEPS, 1, AlbicParams(score_factor=0.5))
    ties, count = run_.ties(run_.partitions(25.0), 1)
    assert count == 1
    assert set(ties.values()) == {1}
    assert set(ties) == {0, 1, 2, 3}


def test_a_set_is_split_by_load_and_by_migration_cost() -> None:
    chain = [(i, i + 1, 5.0) for i in range(5)]
    problem = with_operators(
        with_traffic([10.0] * 6, [0] * 6, chain, nodes=2, capacity=[100.0, 100.0]), list("abcdef")
    )
    by_load = _Albic(problem, Budget(), STEPS, 1, AlbicParams(score_factor=0.5))
    assert all(len(p) <= 2 for p in by_load.partitions(25.0))
    by_cost = _Albic(problem, Budget(moves=3), STEPS, 1, AlbicParams(score_factor=0.5))
    assert all(len(p) <= 3 for p in by_cost.partitions(1000.0))
    assert sum(len(p) for p in by_cost.partitions(1000.0)) == 6


def test_one_pair_a_round_is_collocated() -> None:
    problem = pairs_apart(8, 4)
    problem = dataclasses.replace(problem, capacity=np.full((4, 1), 40.0))
    result = run(problem, Budget(moves=4))
    assert result.collocation_factor is not None
    assert result.collocation_factor >= 100 / 8
    assert run(problem, Budget(moves=4), pairs=4).collocation_factor >= result.collocation_factor


def test_the_recursion_ends_in_the_plain_rebalance() -> None:
    """Two key groups that each fill a node break any maxLD together."""
    problem = with_traffic([1.0, 1.0], [0, 1], [(0, 1, 5.0)])
    result = run(problem, Budget(moves=2))
    assert "plain rebalance" in result.reason
    assert result.load_distance == pytest.approx(0.0)


def test_collocated_pairs_stay_together_when_the_load_is_balanced() -> None:
    """Node 0 has three pairs, node 1 none: whole pairs move."""
    problem = with_operators(
        with_traffic(
            [1.0] * 8,
            [0] * 8,
            [(i, 4 + i, 5.0) for i in range(4)],
            nodes=2,
            capacity=[100.0, 100.0],
        ),
        ["a"] * 4 + ["b"] * 4,
    )
    result = run(problem, Budget(moves=4), score_factor=1.0)
    assert result.moves == 4
    assert result.collocation_factor == 100.0


def test_a_unit_costs_what_its_members_cost() -> None:
    problem = pairs_apart(4, 2, state_bytes=np.array([1, 2, 3, 4, 5, 6, 7, 8]))
    members = [np.array([0, 5])]
    assert contract(problem, Budget(moves=3), members, {}).budget == Budget(bytes=3)
    assert contract(problem, Budget(moves=3), members, {}).problem.state_bytes[0] == 2
    both = contract(problem, Budget(moves=100, bytes=14), members, {})
    share = both.problem.state_bytes[0] / both.budget.bytes
    assert share == pytest.approx((1 + 6) / 14)


@given(problem=problems(), budget=budgets)
@QUICK
def test_every_plan_of_albic_keeps_the_rules(problem: Problem, budget: Budget) -> None:
    for pairs in (1, 4):
        result = run(problem, budget, pairs=pairs)
        if result.status is Status.INFEASIBLE:
            assert result.reason
            return
        broken = verify(problem, budget, names(problem, result.assignment), result.to_dict())
        assert [v for v in broken if v.promise != "better_than_nothing"] == []


@given(problem=problems())
@QUICK
def test_every_plan_of_cola_keeps_the_rules(problem: Problem) -> None:
    result = cola.solve(problem, Budget(), STEPS, 1, ColaParams())
    if result.status is Status.INFEASIBLE:
        assert result.reason
        return
    broken = verify(problem, Budget(), names(problem, result.assignment), result.to_dict())
    assert [v for v in broken if v.promise != "better_than_nothing"] == []


def test_cola_splits_until_the_load_is_level() -> None:
    problem = pairs_apart(12, 4)
    result = cola.solve(problem, Budget(), Stop(), 1, ColaParams(max_load_distance=10.0))
    assert result.load_distance <= 10.0
    assert result.collocation_factor == 100.0


def test_cola_knows_no_budget_so_its_plan_is_repaired_and_says_so() -> None:
    result = cola.solve(pairs_apart(12, 4), Budget(moves=3), Stop(), 1, ColaParams())
    assert 0 < result.moves <= 3
    assert "were undone to keep the budget" in result.reason


@pytest.mark.parametrize(
    "bad", [{"max_ld": 0}, {"pairs": 0}, {"max_pl": float("nan")}, {"rebalance": "magic"}, {"x": 1}]
)
def test_bad_parameters_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        options_of(METHODS["albic"].params, "albic", bad)
    with pytest.raises(InvalidInput):
        options_of(METHODS["cola"].params, "cola", {"max_load_distance": -1.0})
