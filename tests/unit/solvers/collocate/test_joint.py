"""The joint search: rules and promises on every kind of problem, and its purpose."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.collocate import METHODS
from solvers.collocate.joint import plan
from solvers.collocate.joint_params import JointParams
from solvers.model import metrics
from solvers.model.amortisation import AmortisationGate
from solvers.model.budget import Budget
from solvers.model.objective import Objective
from solvers.model.parameter_checks import options_of
from solvers.model.predicted_load import predicted_load
from solvers.model.problem import Problem
from solvers.model.result import Status
from solvers.model.stop import Stop
from solvers.model.traffic_costs import TrafficCosts
from solvers.model.traffic_graph import TrafficGraph
from solvers.rebalance.start import place_must_moves, why_infeasible
from solvers.verify.assignment import verify
from tests.unit.solvers.collocate.instances import (
    budgets,
    collocated_rate,
    pairs_apart,
    problems,
    with_operators,
    with_traffic,
)
from tests.unit.solvers.instances import names

QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
COSTS = st.sampled_from(
    [
        TrafficCosts(),
        TrafficCosts(within_rack=0.5),
        TrafficCosts(within_node=0.1, within_rack=0.1, between_racks=1.0),
    ]
)


@given(problem=problems(), budget=budgets, bound=st.sampled_from([5.0, 20.0, 80.0]), costs=COSTS)
@QUICK
def test_every_plan_keeps_the_rules_and_its_promises(
    problem: Problem, budget: Budget, bound: float, costs: TrafficCosts
) -> None:
    options = JointParams(max_load_distance=bound, costs=costs)
    result = plan(problem, budget, Stop(), 1, options).result
    if result.status is Status.INFEASIBLE:
        assert result.reason
        return
    broken = verify(problem, budget, names(problem, result.assignment), result.to_dict())
    # Load distance may rise within the bound. Everything else must hold.
    assert [v for v in broken if v.promise != "better_than_nothing"] == []


@given(problem=problems(), budget=budgets, bound=st.sampled_from([20.0, 60.0, 200.0]))
@QUICK
def test_a_start_within_the_load_bound_is_never_taken_out_of_it(
    problem: Problem, budget: Budget, bound: float
) -> None:
    assume(why_infeasible(problem, budget) is None)
    assume(metrics.load_distance(problem, place_must_moves(problem)) <= bound)
    result = plan(problem, budget, Stop(), 1, JointParams(max_load_distance=bound)).result
    assert result.load_distance <= bound + 1e-6


@given(problem=problems(), budget=budgets, bound=st.sampled_from([20.0, 60.0, 200.0]))
@QUICK
def test_collocation_is_never_lower_than_by_doing_nothing(
    problem: Problem, budget: Budget, bound: float
) -> None:
    """Only if nothing is more urgent: the load is within its bound and no node drains."""
    assume(why_infeasible(problem, budget) is None and not problem.draining.any())
    start = place_must_moves(problem)
    assume(metrics.load_distance(problem, start) <= bound)
    result = plan(problem, budget, Stop(), 1, JointParams(max_load_distance=bound)).result
    assert collocated_rate(problem, result.assignment) >= collocated_rate(problem, start) - 1e-9


@given(problem=problems(), budget=budgets)
@QUICK
def test_nothing_comes_onto_draining_nodes(problem: Problem, budget: Budget) -> None:
    result = plan(problem, budget, Stop(), 1, JointParams(max_load_distance=50)).result
    moved = result.assignment != problem.current
    assert not problem.draining[result.assignment[moved]].any()


@given(problem=problems(), budget=budgets, send=st.floats(0, 2), receive=st.floats(0, 2))
@QUICK
def test_the_predicted_load_is_that_of_loads_recomputed_from_scratch(
    problem: Problem, budget: Budget, send: float, receive: float
) -> None:
    costs = TrafficCosts(
        send=(send,) * problem.n_resources, receive=(receive,) * problem.n_resources
    )
    made = plan(problem, budget, Stop(), 1, JointParams(max_load_distance=50, costs=costs))
    if not made.result.is_solved:
        return
    graph = TrafficGraph.of(problem)
    load = predicted_load(problem, graph, costs, made.result.assignment)
    assert (load >= -1e-9).all()
    again = dataclasses.replace(problem, load=np.maximum(load, 0.0))
    expected = metrics.load_distance(again, made.result.assignment)
    assert made.result.load_distance == pytest.approx(expected, abs=1e-6)


def test_pairs_come_together_within_the_budget() -> None:
    problem = pairs_apart(12, 4)
    made = plan(problem, Budget(moves=4), Stop(), 1, JointParams(max_load_distance=40))
    assert made.result.moves == 4
    assert made.result.collocation_factor == pytest.approx(100 * 4 / 12)
    assert made.saved_rate == pytest.approx(40.0)


def test_rounds_reach_all_pairs_in_as_many_moves_as_there_are_pairs() -> None:
    problem = pairs_apart(12, 4)
    target, moves = None, 0
    for seed in range(4):
        options = JointParams(max_load_distance=40, target=target, level_to=40)
        made = plan(problem, Budget(moves=4), Stop(), seed, options)
        moves += made.result.moves
        target = made.target
        problem = dataclasses.replace(problem, current=made.result.assignment.copy())
    assert made.result.collocation_factor == pytest.approx(100.0)
    assert moves == 12


def test_saved_serialisation_lowers_the_load_index_as_in_real_job_2() -> None:
    """[ICDE17, 5.4]: with half of the load spent on serialisation, collocation halves it."""
    rate, groups = 10.0, 4
    load = [1.0] * (2 * groups)  # half of it is serialising 10 records at 0.05
    problem = with_operators(
        with_traffic(
            load,
            [0, 1, 2, 3, 1, 2, 3, 0],
            [(i, groups + i, rate) for i in range(groups)],
        ),
        ["a"] * groups + ["b"] * groups,
    )
    costs = TrafficCosts(send=(0.05,), receive=(0.05,))
    options = JointParams(max_load_distance=10, costs=costs)
    made = plan(problem, Budget(), Stop(), 1, options)
    assert made.result.collocation_factor == pytest.approx(100.0)
    assert made.result.load_index == pytest.approx(50.0)
    assert made.result.load_distance == pytest.approx(0.0, abs=1e-9)


def test_a_load_out_of_bounds_is_repaired_first() -> None:
    problem = with_traffic([1.0] * 8, [0] * 6 + [1, 1], [(0, 1, 5.0)])
    made = plan(problem, Budget(moves=2), Stop(), 1, JointParams(max_load_distance=10))
    assert made.result.load_distance == pytest.approx(0.0, abs=1e-9)
    assert made.result.collocation_factor == pytest.approx(100.0)


def test_repairs_that_undo_each_other_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """If records between nodes cost load, each of two opposite moves may look like a relief."""
    monkeypatch.setattr("solvers.collocate.load_repair.load_relief", lambda *_: 1.0)
    problem = with_traffic([1.0] * 3, [0, 0, 1], [(0, 1, 5.0)])
    made = plan(problem, Budget(), Stop(seconds=1), 1, JointParams(max_load_distance=1))
    assert made.result.is_solved


def test_what_drains_leaves() -> None:
    problem = with_traffic(
        [1.0] * 6, [0, 0, 1, 1, 2, 2], [(0, 4, 5.0)], states=["alive", "alive", "draining"]
    )
    made = plan(problem, Budget(moves=2), Stop(), 1, JointParams(max_load_distance=60))
    assert made.result.draining_load == 0.0
    assert made.result.collocation_factor == pytest.approx(100.0)


def test_partners_in_one_rack_are_better_than_in_two() -> None:
    """Node n0 is full, so the pair cannot share it, but its rack has another node."""
    problem = with_traffic(
        [1.0, 1.0, 1.0],
        [0, 2, 1],
        [(0, 1, 9.0)],
        nodes=3,
        rack=("x", "x", "y"),
    )
    costs = TrafficCosts(within_rack=0.2)
    made = plan(problem, Budget(), Stop(), 1, JointParams(max_load_distance=1, costs=costs))
    assert made.saved_rate == pytest.approx(9.0 * 0.8)
    rack = [problem.rack[i] for i in made.result.assignment.tolist()]
    assert rack[0] == rack[1]


def test_the_gate_holds_back_what_does_not_pay_and_says_so() -> None:
    problem = pairs_apart(6, 3)
    # 10 records saved, a state of 10 bytes
    gate = AmortisationGate(records_per_byte=2.0, lifetime=1.0)
    made = plan(problem, Budget(), Stop(), 1, JointParams(max_load_distance=60, gate=gate))
    assert made.result.moves == 0
    assert made.held_back
    assert "costs as much as 20" in made.held_back[0].reason
    longer = JointParams(max_load_distance=60, gate=dataclasses.replace(gate, lifetime=3.0))
    assert plan(problem, Budget(), Stop(), 1, longer).result.collocation_factor == 100.0


def test_the_weighted_objective_trades_traffic_for_balance() -> None:
    problem = with_traffic([1.0, 1.0], [0, 1], [(0, 1, 5.0)])
    cheap = JointParams(max_load_distance=100, objective="weighted", load_weight=0.1)
    dear = JointParams(max_load_distance=100, objective="weighted", load_weight=10.0)
    assert plan(problem, Budget(), Stop(), 1, cheap).result.collocation_factor == 100.0
    assert plan(problem, Budget(), Stop(), 1, dear).result.moves == 0


def test_no_edges_one_node_and_a_giant_cluster_are_sound() -> None:
    lonely = with_traffic([1.0, 2.0], [0, 1], [])
    assert plan(lonely, Budget(), Stop(), 1, JointParams()).result.is_solved
    single = with_traffic([1.0, 2.0], [0, 0], [(0, 1, 3.0)], nodes=1)
    assert plan(single, Budget(), Stop(), 1, JointParams()).result.moves == 0
    ring = [(i, (i + 1) % 12, 5.0) for i in range(12)]
    giant = with_traffic([1.0] * 12, list(range(4)) * 3, ring)
    made = plan(giant, Budget(), Stop(), 1, JointParams(max_load_distance=10))
    assert made.result.load_distance <= 10
    assert made.result.collocation_factor == pytest.approx(100 * 8 / 12)


def test_an_edge_to_itself_counts_as_collocated_and_moves_nothing() -> None:
    problem = with_traffic([1.0, 1.0], [0, 1], [(0, 0, 7.0), (1, 1, 1.0)])
    result = plan(problem, Budget(), Stop(), 1, JointParams()).result
    assert result.collocation_factor == 100.0
    assert result.moves == 0


def test_the_same_seed_gives_the_same_plan() -> None:
    problem = pairs_apart(15, 5)
    one, other = (
        plan(problem, Budget(moves=5), Stop(), 7, JointParams(max_load_distance=30))
        for _ in range(2)
    )
    assert np.array_equal(one.result.assignment, other.result.assignment)


@pytest.mark.parametrize(
    "bad",
    [
        {"objective": "best"},
        {"max_load_distance": float("nan")},
        {"max_load_distance": 0},
        {"traffic_weight": -1.0},
        {"propose_every": 0},
        {"colour": "red"},
    ],
)
def test_bad_parameters_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        options_of(METHODS["joint"].params, "joint", bad)


def test_costs_need_one_number_per_resource() -> None:
    options = JointParams(costs=TrafficCosts(send=(1.0, 2.0)))
    with pytest.raises(InvalidInput, match="one per resource"):
        plan(pairs_apart(3, 2), Budget(), Stop(), 1, options)


def partners_on_a_dead_node(memory: float, network: float) -> Problem:
    """Two key groups that exchange records and have to move; records between nodes use network."""
    return Problem(
        node_ids=("n0", "n1", "dead"),
        resources=("cpu", "memory", "network"),
        capacity=np.array([[1.0, memory, network]] * 3),
        node_state=("alive", "alive", "dead"),
        key_group_ids=("parse/0", "count/0"),
        operator_ids=("parse", "count"),
        load=np.array([[0.6, 0.6, 1.0], [0.6, 0.6, 1.0]]),
        state_bytes=np.array([1, 1]),
        current=np.array([2, 2]),
        balanced=np.array([True, False, False]),
        traffic_from=np.array([0]),
        traffic_to=np.array([1]),
        traffic_rate=np.array([10.0]),
    )


@pytest.mark.parametrize(
    ("memory", "network", "bound", "is_solved"),
    [(1.0, 5.0, 200.0, False), (2.0, 5.0, 20.0, False), (2.0, 5.0, 200.0, True),
     (1.0, 20.0, 200.0, True)],
)  # fmt: skip
def test_where_no_plan_keeps_the_caps_the_result_is_infeasible_and_names_the_cap(
    memory: float, network: float, bound: float, is_solved: bool
) -> None:
    problem = partners_on_a_dead_node(memory, network)
    costs = TrafficCosts(send=(0.0, 0.0, 1.0), receive=(0.0, 0.0, 1.0))
    gate = AmortisationGate(records_per_byte=0.0)
    options = JointParams(max_load_distance=bound, costs=costs, gate=gate)
    result = plan(problem, Budget(), Stop(), 1, options).result
    assert result.is_solved == is_solved
    assert ("'network'" in result.reason) != is_solved
    if is_solved:
        placed, objective = (
            names(problem, result.assignment),
            Objective("joint", bound, costs, gate),
        )
        assert verify(problem, Budget(), placed, result.to_dict(), objective) == []


def test_a_placement_from_nothing_is_a_candidate_within_the_budget_alone() -> None:
    problem = pairs_apart(15, 5)
    first = JointParams(max_load_distance=20, from_scratch=True)
    usual = JointParams(max_load_distance=20)
    for budget, is_tried in ((Budget(), True), (Budget(moves=4), False)):
        made = plan(problem, budget, Stop(), 1, first).result
        assert ("cola" in [step[1] for step in made.trace]) == is_tried
        assert ("(COLA) was a candidate" in made.reason) == is_tried
        assert ("(COLA) is over the budget" in made.reason) != is_tried
        assert budget.moves is None or made.moves <= budget.moves
        without = plan(problem, budget, Stop(), 1, usual).result
        assert (made.collocation_factor or 0) >= (without.collocation_factor or 0)
        assert "COLA" not in without.reason


def test_a_single_key_group_that_does_not_pay_is_named_with_both_figures() -> None:
    """A pair pays for its move of 10 bytes. Another key group exchanges few records with all, and
    does not."""
    talks = [(0, 1, 100.0), *((2, to, 1.0) for to in (0, 1, 3, 4))]
    problem = with_traffic([1.0] * 6, [0, 1, 2, 0, 1, 2], talks, nodes=3)
    gate = AmortisationGate(records_per_byte=2.0)
    made = plan(problem, Budget(), Stop(), 1, JointParams(max_load_distance=80, gate=gate))
    alone = [held for held in made.held_back if held.kind == "key group"]
    assert "k2" in {name for held in alone for name in held.what}
    assert all(len(held.what) == 1 for held in alone)
    assert "costs as much as 20" in alone[0].reason
    free = JointParams(max_load_distance=80, gate=AmortisationGate(records_per_byte=0.0))
    assert plan(problem, Budget(), Stop(), 1, free).held_back == ()
